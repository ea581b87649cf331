"""The weights with which the training of the demo's autoencoder begins: it begins as an autoencoder.

With random weights, an `AutoencoderKL` learns shapes soon and colours late: its last normalisations remove
the mean of a picture, and thousands of steps pass until the network carries the colours around them. Here the
residual stream carries the picture from the first step on. The encoder begins as the mean of 8×8 pixels, in
three channels of brightness and hue; the decoder begins as a smooth enlargement of these means.

- The first channels of every residual block carry the picture; each block begins as its shortcut.
- The next three channels carry its negative, so that the mean over all channels does not depend on colours.
- The last two channels are constants, so large that they alone decide the variance. A normalisation of all
  channels together then begins as a fixed scale, and keeps the mean of every other channel.
- The last activations get an offset at which SiLU is almost linear.
"""

from __future__ import annotations

import math

import torch
from diffusers import AutoencoderKL
from diffusers.models.resnet import ResnetBlock2D
from torch import Tensor, nn

HUES = torch.tensor([[0.5, 0.5, 0.5], [1.0, 0.0, -1.0], [-1.0, 2.0, -1.0]])
"""Brightness, red against blue, and green against both, of red, green and blue."""
OFFSET, SLOPE, VALUE = 2.0, 1.065, 1.78
"""Added before a last SiLU; around it, SiLU is a line of this slope through this value to within 0.03."""
SPREAD = 4.0
"""The standard deviation that the constants give to all channels together."""
FIRST_LOGVAR = -8.0
"""The latents' noise at the start; a deviation of 1 would hide what the encoder learns first."""
COLOURS = 3
CARRIED = 2 * COLOURS


@torch.no_grad()
def start_as_means(model: AutoencoderKL) -> None:
    """Set the weights so that the model encodes means of 8×8 pixels and decodes their enlargement."""
    encoder, decoder = model.encoder, model.decoder
    _carry(encoder.conv_in, _tap(_both(torch.eye(COLOURS))))
    for block in encoder.down_blocks:
        for each in block.downsamplers or ():
            _carry(each.conv, _window(torch.tensor([0.5, 0.5, 0.0])))
    _carry(decoder.conv_in, _tap(_both(torch.linalg.inv(HUES))))
    for block in decoder.up_blocks:
        for each in block.upsamplers or ():
            _carry(each.conv, _window(torch.tensor([0.25, 0.5, 0.25])))
    for module in model.modules():
        if isinstance(module, ResnetBlock2D):
            _start_as_shortcut(module)
    _start_end(encoder.conv_norm_out, encoder.conv_out, HUES)
    _start_end(decoder.conv_norm_out, decoder.conv_out, torch.eye(COLOURS))
    for conv in (model.quant_conv, model.post_quant_conv):
        nn.init.dirac_(conv.weight)
        nn.init.zeros_(conv.bias)
    nn.init.constant_(model.quant_conv.bias[len(model.post_quant_conv.bias) :], FIRST_LOGVAR)


def _both(mixing: Tensor) -> Tensor:
    """Return the mixture of channels, then its negative."""
    return torch.cat([mixing, -mixing])


def _tap(mixing: Tensor) -> Tensor:
    """Return a 3×3 kernel that mixes channels and leaves every pixel where it is."""
    kernel = torch.zeros(*mixing.shape, 3, 3)
    kernel[:, :, 1, 1] = mixing
    return kernel


def _window(weights: Tensor) -> Tensor:
    """Return a separable 3×3 kernel for each carried channel alone."""
    return torch.einsum("oi,h,w->oihw", torch.eye(CARRIED), weights, weights)


def _constants(channels: int) -> Tensor:
    """Return the values of the last two channels of a residual block."""
    value = SPREAD * math.sqrt(channels / 2)
    return torch.tensor([value, -value])


def _carry(conv: nn.Conv2d, kernel: Tensor) -> None:
    """Give the first channels a kernel of the first inputs, and make the last channels constant.

    The others get random weights that keep the variance, without the inputs' mean.
    """
    nn.init.kaiming_normal_(conv.weight, nonlinearity="linear")
    conv.weight -= conv.weight.mean((2, 3), keepdim=True) if conv.kernel_size[0] > 1 else 0
    nn.init.zeros_(conv.bias)
    carried, inputs = kernel.shape[:2]
    conv.weight[:carried] = 0
    conv.weight[:carried, :inputs] = kernel
    conv.weight[-2:] = 0
    conv.bias[-2:] = _constants(conv.out_channels)
    if conv.in_channels > CARRIED:
        conv.weight[:, -2:] = 0


def _start_as_shortcut(block: ResnetBlock2D) -> None:
    nn.init.kaiming_normal_(block.conv1.weight, nonlinearity="relu")
    nn.init.zeros_(block.conv1.bias)
    block.conv1.weight[-2:] = 0
    block.conv1.bias[-2:] = _constants(block.conv1.out_channels)
    for norm in (block.norm1, block.norm2):
        nn.init.constant_(norm.weight, SPREAD)
        norm.weight[-2:] = 1 / SPREAD
    nn.init.zeros_(block.conv2.weight)
    nn.init.zeros_(block.conv2.bias)
    if block.conv_shortcut is not None:
        _carry(block.conv_shortcut, torch.eye(CARRIED)[:, :, None, None])


def _start_end(norm: nn.GroupNorm, conv: nn.Conv2d, mixing: Tensor) -> None:
    """Make the last normalisation, SiLU and convolution a mixture of the carried channels."""
    nn.init.constant_(norm.weight, SPREAD)
    norm.weight[-2:] = 0
    norm.bias[:COLOURS] = OFFSET
    nn.init.zeros_(conv.bias)
    conv.bias[:COLOURS] = -VALUE / SLOPE * mixing.sum(1)
    conv.weight[:COLOURS] = 0
    conv.weight[:COLOURS, :COLOURS] = _tap(mixing / SLOPE)

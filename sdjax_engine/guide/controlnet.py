"""`FlaxControlNetModel`, and the pipeline whose pictures keep the composition of a control picture."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.guide.base import keep_at_host
from sdjax_engine.guide.folder import save_network, upload
from sdjax_engine.guide.networks import (
    Output,
    Params,
    UnboundNetwork,
    UnboundTextEncoder,
    UnboundUNet,
    UnboundVae,
    as_removed,
    take_apart,
)
from sdjax_engine.guide.painting import Bound, channels_last, guidance_of
from sdjax_engine.guide.pictures import CONTROL_MULTIPLE, Pictures, control_from_pil
from sdjax_engine.guide.schedulers import FlaxScheduler
from sdjax_engine.guide.stable_diffusion import GUIDANCE_SCALE, STEPS, PromptedPipeline
from sdjax_engine.guide.tokenizer import CLIPTokenizer
from sdjax_engine.models.controlnet_config import NAME, check_fits
from sdjax_engine.weights.controlnet import load_controlnet
from sdjax_engine.weights.files import HubOptions, find_source

logger = logging.getLogger(__name__)

ITS_NAME = "controlnet"


class FlaxControlNetModel(UnboundNetwork):
    """A ControlNet; `apply` evaluates it as the removed class did."""

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        dtype: DTypeLike = jnp.float32,
        *,
        subfolder: str | None = None,
        revision: str | None = None,
        variant: str | None = None,
        cache_dir: str | Path | None = None,
        proxies: Mapping[str, str] | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        from_pt: bool = True,  # noqa: ARG003 – always so: the files are those of the torch classes
        **ignored: Any,
    ) -> tuple[Self, Params]:
        """Return the ControlNet of a folder, a .safetensors file or a hub id, and its parameters.

        The parameters are in host memory. A `subfolder` is one of a local folder. Other arguments are those
        of the pipelines' `from_pretrained`; further ones are ignored with a warning. Raises
        UnreadableCheckpoint if it cannot be read, or is a ControlNet of several types.
        """
        if ignored:
            logger.warning("%s.from_pretrained ignores %s", cls.__name__, ", ".join(sorted(ignored)))
        source = str(pretrained_model_name_or_path)
        if subfolder is not None:
            source = str(find_source(source) / subfolder)
        component = load_controlnet(
            source,
            dtype=jnp.dtype(dtype).name,
            revision=revision,
            variant=variant,
            put=keep_at_host,
            hub=HubOptions(
                cache_dir=cache_dir, proxies=proxies, local_files_only=local_files_only, token=token
            ),
        )
        if "num_control_type" in component.config:
            raise UnreadableCheckpoint(f"{source} is a ControlNet of several types: {cls.__name__} has one.")
        return take_apart(as_removed(component), cls)

    def save_pretrained(
        self,
        save_directory: str | Path,
        params: Params,
        is_main_process: bool = True,
        push_to_hub: bool = False,
        **hub: Any,
    ) -> None:
        """Write the ControlNet as a folder that the torch class reads; by the main process only.

        With `push_to_hub` the folder is uploaded; see the pipelines' method. Raises OSError.
        """
        if is_main_process:
            save_network(ITS_NAME, self, params, Path(save_directory))
        if push_to_hub:
            upload(Path(save_directory), **hub)

    def apply(  # noqa: PLR0917 – the removed class's order
        self,
        variables: Params,
        sample: Any,
        timesteps: Any,
        encoder_hidden_states: Any,
        controlnet_cond: Any,
        conditioning_scale: float | jax.Array = 1.0,
        return_dict: bool = True,
        train: bool = False,  # noqa: ARG002 – there is no dropout
    ) -> Any:
        """Return `down_block_res_samples` and `mid_block_res_sample`, channels last, times the scale.

        `variables` is `{"params": params}`. Latents (n, c, h, w) and pictures (n, 3, height, width) from 0
        to 1 are channels first.
        """
        network = self.bind(variables["params"])
        x = channels_last(sample)
        steps = jnp.broadcast_to(jnp.atleast_1d(jnp.asarray(timesteps, jnp.float32)), (len(x),))
        picture = network.embed(channels_last(controlnet_cond))
        made = network(x, steps, network.project(jnp.asarray(encoder_hidden_states)), picture)
        scaled = made.scaled(guidance_of(conditioning_scale, (len(x),)))
        output = Output(down_block_res_samples=list(scaled.skips), mid_block_res_sample=scaled.middle)
        return output if return_dict else output.to_tuple()


class FlaxStableDiffusionControlNetPipeline(PromptedPipeline):
    """Pictures from prompts and control pictures, whose composition they keep."""

    given_names: ClassVar[tuple[str, ...]] = (ITS_NAME,)

    def __init__(
        self,
        *,
        vae: UnboundVae,
        text_encoder: UnboundTextEncoder,
        tokenizer: CLIPTokenizer,
        unet: UnboundUNet,
        scheduler: FlaxScheduler,
        controlnet: FlaxControlNetModel | None = None,
        safety_checker: UnboundNetwork | None = None,
        feature_extractor: Mapping[str, Any] | None = None,
        dtype: DTypeLike = jnp.float32,
    ) -> None:
        super().__init__(
            vae=vae,
            text_encoder=text_encoder,
            tokenizer=tokenizer,
            unet=unet,
            scheduler=scheduler,
            safety_checker=safety_checker,
            feature_extractor=feature_extractor,
            dtype=dtype,
        )
        if controlnet is None:
            raise ValueError(
                f"{type(self).__name__} needs a `{ITS_NAME}`: the first result of "
                "FlaxControlNetModel.from_pretrained."
            )
        check_fits(
            NAME,
            controlnet.config,
            unet.config,
            latent_channels=int(vae.config["latent_channels"]),
            factor=self.vae_scale_factor,
        )
        self.controlnet = controlnet

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        dtype: DTypeLike | None = None,
        controlnet: FlaxControlNetModel | None = None,
        **how: Any,
    ) -> tuple[Self, Params]:
        """Return what the other pipelines' method returns, with a `controlnet`, whose parameters are apart.

        If none is given, that of the folder is used, and its parameters are among those returned.
        """
        of_folder: Params = {}
        beside = Path(pretrained_model_name_or_path).expanduser() / ITS_NAME
        if controlnet is None and beside.is_dir():
            controlnet, its_own = FlaxControlNetModel.from_pretrained(beside, dtype=dtype or jnp.float32)
            of_folder = {ITS_NAME: its_own}
        pipeline, params = super().from_pretrained(
            pretrained_model_name_or_path, dtype=dtype, controlnet=controlnet, **how
        )
        return pipeline, params | of_folder

    def prepare_text_inputs(self, prompt: str | Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the token ids (n, 77) int32 of one prompt or several."""
        return self._token_ids(prompt, self.tokenizer)

    def prepare_image_inputs(self, image: Pictures) -> npt.NDArray[np.float32]:
        """Return control pictures (n, 3, height, width) from 0 to 1.

        They are resized: their sides are rounded down to multiples of 64.
        """
        return control_from_pil(image)

    def __call__(  # noqa: PLR0917 – the removed class's order
        self,
        prompt_ids: Any,
        image: Any,
        params: Params,
        prng_seed: jax.Array,
        num_inference_steps: int = STEPS,
        guidance_scale: float | jax.Array = GUIDANCE_SCALE,
        latents: Any = None,
        neg_prompt_ids: Any = None,
        controlnet_conditioning_scale: float | jax.Array = 1.0,
        return_dict: bool = True,
        jit: bool = False,
    ) -> Any:
        """Paint a picture for each prompt and control picture. Returns an output with `images`, or a tuple.

        `params["controlnet"]` are the ControlNet's parameters. The pictures have the size of the control
        pictures. `controlnet_conditioning_scale` is one number, or one for each prompt, as the guidance is.
        The other arguments are those of `FlaxStableDiffusionPipeline`.
        """
        size = controlled_size(image)
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            size,
            guidance_scale,
            neg_prompt_ids,
            noise=latents,
            control=image,
            control_scale=guidance_of(controlnet_conditioning_scale, prompt_ids.shape[:-1]),
        )
        painted = self._run(params, inputs, self._sampling(num_inference_steps), form, jit=jit)
        return self._output(painted, return_dict=return_dict)

    def _generate(  # noqa: PLR0917 – likewise
        self,
        prompt_ids: Any,
        image: Any,
        params: Params,
        prng_seed: jax.Array,
        num_inference_steps: int = STEPS,
        guidance_scale: float | jax.Array = GUIDANCE_SCALE,
        latents: Any = None,
        neg_prompt_ids: Any = None,
        controlnet_conditioning_scale: float | jax.Array = 1.0,
    ) -> jax.Array:
        """Return the pictures (n, height, width, 3) of one device's prompts and control pictures.

        Map it with `jax.pmap`. The number of steps must be static.
        """
        inputs, form = self._asked(
            prompt_ids,
            prng_seed,
            controlled_size(image),
            guidance_scale,
            neg_prompt_ids,
            noise=latents,
            control=image,
            control_scale=guidance_of(controlnet_conditioning_scale, prompt_ids.shape[:-1]),
        )
        return self._paint(params, inputs, self._sampling(num_inference_steps), form)

    def _bind(self, params: Params) -> Bound:
        return super()._bind(params)._replace(controlnet=self.controlnet.bind(params[ITS_NAME]))


def controlled_size(image: Any) -> tuple[int, int]:
    """Return the (height, width) of control pictures; raises ValueError unless they are multiples of 64."""
    height, width = np.shape(image)[-2:]
    if height % CONTROL_MULTIPLE or width % CONTROL_MULTIPLE:
        raise ValueError(
            f"`height` and `width` have to be divisible by {CONTROL_MULTIPLE} but are {height} and {width}."
        )
    return height, width

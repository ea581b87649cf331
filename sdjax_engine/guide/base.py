"""The base class of the pipelines: loading, tokenizing, and running on one device or on all devices."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import PIL.Image
from jax.sharding import Mesh
from jax.typing import DTypeLike

from sdjax_engine.denoising.noise import as_threefry, usual_bits
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.guide.folder import save_pipeline, upload
from sdjax_engine.guide.networks import (
    Params,
    UnboundNetwork,
    UnboundTextEncoder,
    UnboundUNet,
    UnboundVae,
    as_removed,
    take_apart,
)
from sdjax_engine.guide.painting import (
    Bound,
    CallForm,
    Condition,
    Inputs,
    Sampling,
    Shown,
    Start,
    channels_first,
    channels_last,
    checked,
    decode,
    guidance_of,
    is_guided,
    latents_of,
    mesh_over,
    normal,
    over,
    place,
)
from sdjax_engine.guide.pictures import to_pil
from sdjax_engine.guide.schedulers import FlaxScheduler, scheduler_of
from sdjax_engine.guide.tokenizer import CLIPTokenizer
from sdjax_engine.models.pixels import settle_preprocessing
from sdjax_engine.weights import Checkpoint, load_checkpoint
from sdjax_engine.weights.files import HubOptions

logger = logging.getLogger(__name__)

AS_LOADED: Any = object()
"""The default of an optional component: take the checkpoint's own. None means: leave it out."""

UNSAID_SAMPLE_SIZE = 64


class FlaxDiffusionPipeline:
    """A pipeline: networks, tokenizers and scheduler. It holds no parameters; every call is given them.

    The networks are `UnboundNetwork` objects. The safety checker may be None. `components` are the arguments
    that make another pipeline of the same parts.
    """

    text_encoder_names: ClassVar[tuple[str, ...]] = ("text_encoder",)
    ids_axes: ClassVar[int] = 1
    sees_a_picture: ClassVar[bool] = False
    given_names: ClassVar[tuple[str, ...]] = ()
    """The components that a checkpoint does not have, and `from_pretrained` is given."""

    def __init__(
        self,
        *,
        vae: UnboundVae,
        text_encoder: UnboundTextEncoder,
        tokenizer: CLIPTokenizer,
        unet: UnboundUNet,
        scheduler: FlaxScheduler,
        safety_checker: UnboundNetwork | None = None,
        feature_extractor: Mapping[str, Any] | None = None,
        dtype: DTypeLike = jnp.float32,
    ) -> None:
        self.vae = vae
        self.text_encoder = text_encoder
        self.tokenizer = tokenizer
        self.unet = unet
        self.scheduler = scheduler
        self.safety_checker = safety_checker
        self.feature_extractor = feature_extractor
        self.dtype = dtype
        self._check_unet()

    def _check_unet(self) -> None:
        latents, channels = int(self.vae.config["latent_channels"]), int(self.unet.config["in_channels"])
        wanted = 2 * latents + 1 if self.sees_a_picture else latents
        if channels != wanted:
            raise UnreadableCheckpoint(
                f"{type(self).__name__} needs a UNet of {wanted} input channels, and this one has {channels}."
            )
        if self.unet.config["time_cond_proj_dim"] is not None:
            raise UnreadableCheckpoint(
                f"{type(self).__name__} gives its UNet no guidance scale, and this one is trained on it, "
                "as that of LCM: use Engine."
            )

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        dtype: DTypeLike | None = None,
        revision: str | None = None,
        variant: str | None = None,
        cache_dir: str | Path | None = None,
        proxies: Mapping[str, str] | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        safety_checker: UnboundNetwork | None = AS_LOADED,
        from_pt: bool = True,  # noqa: ARG003 – always so: the files are those of the torch classes
        split_head_dim: bool = False,  # noqa: ARG003 – how attention is computed is not the caller's matter
        use_memory_efficient_attention: bool = False,  # noqa: ARG003 – likewise
        **components: Any,
    ) -> tuple[Self, Params]:
        """Return the pipeline of a checkpoint, "demo", a folder or a hub id, and its parameters.

        `dtype` is float32 (the default) or bfloat16. The parameters are in host memory; copy them to the
        devices with `replicate` or `jax.device_put`. `safety_checker=None` leaves the safety checker out;
        other `components`, such as a `scheduler`, take the place of the checkpoint's. As in the removed
        class, further arguments, such as `torch_dtype`, are ignored with a warning. The hub's client gets
        `cache_dir`, `token` and `local_files_only`; `proxies`, by protocol, apply to the whole process while
        files are fetched.
        Raises UnreadableCheckpoint if the checkpoint cannot be read or does not fit this pipeline.
        """
        checkpoint = load_checkpoint(
            str(pretrained_model_name_or_path),
            dtype=jnp.dtype(dtype or jnp.float32).name,
            revision=revision,
            variant=variant,
            safety_checker=safety_checker is not None,
            put=keep_at_host,
            hub=HubOptions(
                cache_dir=cache_dir, proxies=proxies, local_files_only=local_files_only, token=token
            ),
        )
        parts, params = cls._networks(checkpoint)
        if (checker := checkpoint.components.get("safety_checker")) is not None:
            parts["safety_checker"], params["safety_checker"] = take_apart(checker, UnboundNetwork)
        parts["scheduler"] = scheduler_of(checkpoint.scheduler_config)
        parts["feature_extractor"] = checkpoint.preprocessor_config
        known = (*parts, *cls.given_names)
        replacements = {name: value for name, value in components.items() if name in known}
        if ignored := sorted(components.keys() - replacements.keys()):
            logger.warning("%s.from_pretrained ignores %s", cls.__name__, ", ".join(ignored))
        if safety_checker is not AS_LOADED:
            replacements["safety_checker"] = safety_checker
        return cls(**(parts | replacements), dtype=dtype or jnp.float32), params

    def save_pretrained(
        self, save_directory: str | Path, params: Params, push_to_hub: bool = False, **hub: Any
    ) -> None:
        """Write the pipeline and its parameters as a folder in the diffusers layout, as safetensors.

        This package and the torch classes read it. With `push_to_hub` the folder is uploaded as `repo_id`, by
        default the folder's name; `token`, `private`, `commit_message` and `create_pr` are the hub's. Raises
        OSError.
        """
        save_pipeline(self, Path(save_directory), params)
        if push_to_hub:
            upload(Path(save_directory), **hub)

    @classmethod
    def _networks(cls, checkpoint: Checkpoint) -> tuple[dict[str, Any], Params]:
        """Return the networks and tokenizers as constructor arguments, and their parameters."""
        loaded, count = checkpoint.components, len(checkpoint.tokenizers)
        if count != len(cls.text_encoder_names):
            raise UnreadableCheckpoint(
                f"{checkpoint.name} has {count} text encoders, and {cls.__name__} takes "
                f"{len(cls.text_encoder_names)}."
            )
        parts: dict[str, Any] = {}
        params: Params = {"scheduler": {}}
        parts["vae"], params["vae"] = take_apart(loaded["vae"], UnboundVae)
        parts["unet"], params["unet"] = take_apart(as_removed(loaded["unet"]), UnboundUNet)
        for name, tokenizer in zip(cls.text_encoder_names, checkpoint.tokenizers, strict=True):
            parts[name], params[name] = take_apart(loaded[name], UnboundTextEncoder)
            parts[name.replace("text_encoder", "tokenizer")] = CLIPTokenizer(tokenizer=tokenizer)
        return parts, params

    @property
    def components(self) -> dict[str, Any]:
        """The arguments that make another pipeline of the same parts."""
        names = ("vae", "unet", "scheduler", "safety_checker", "feature_extractor", *self.given_names)
        tokenizers = [name.replace("text_encoder", "tokenizer") for name in self.text_encoder_names]
        return {name: getattr(self, name) for name in (*names, *self.text_encoder_names, *tokenizers)}

    @property
    def vae_scale_factor(self) -> int:
        """Pixels of a picture per latent pixel, along one side."""
        return int(2 ** (len(self.vae.config["block_out_channels"]) - 1))

    @staticmethod
    def numpy_to_pil(images: npt.NDArray[np.float32] | jax.Array) -> list[PIL.Image.Image]:
        """Return the pictures of `images`, (n, height, width, 3) or one, floats from 0 to 1."""
        return to_pil(images)

    def _token_ids(self, prompt: str | Sequence[str], tokenizer: CLIPTokenizer) -> npt.NDArray[np.int32]:
        if not isinstance(prompt, str | list | tuple):
            raise ValueError(f"`prompt` has to be of type `str` or `list` but is {type(prompt)}")
        prompts = [prompt] if isinstance(prompt, str) else prompt
        return np.stack([tokenizer.ids(each) for each in prompts])

    def _asked(
        self,
        prompt_ids: Any,
        key: jax.Array,
        size: tuple[int | None, int | None],
        guidance_scale: Any,
        neg_prompt_ids: Any,
        *,
        latents_only: bool = False,
        **arrays: Any,
    ) -> tuple[Inputs, CallForm]:
        """Return a call's arrays and its `CallForm`; `arrays` are further fields of `Inputs`."""
        height, width = self._size(*size)
        inputs = Inputs(
            prompt_ids=prompt_ids,
            neg_prompt_ids=self._negative(neg_prompt_ids, prompt_ids),
            key=key,
            guidance_scale=guidance_of(guidance_scale, prompt_ids.shape[: -self.ids_axes]),
            **arrays,
        )
        form = CallForm(
            height=height,
            width=width,
            guided=is_guided(guidance_scale),
            latents_only=latents_only,
            checked=self.safety_checker is not None and not latents_only,
        )
        return inputs, form

    def _negative(self, neg_prompt_ids: Any, prompt_ids: Any) -> Any:
        """Return `neg_prompt_ids`, or the ids of the empty prompt in the shape of `prompt_ids`."""
        if neg_prompt_ids is not None:
            return neg_prompt_ids
        return jnp.broadcast_to(self.tokenizer.ids(""), prompt_ids.shape)

    def _size(self, height: int | None, width: int | None) -> tuple[int, int]:
        """Return height and width in pixels, by default the UNet's training size; raises ValueError."""
        size = self.unet.config["sample_size"] or UNSAID_SAMPLE_SIZE
        rows, columns = size if isinstance(size, tuple | list) else (size, size)
        scale = self.vae_scale_factor
        height, width = height or rows * scale, width or columns * scale
        if height % scale or width % scale:
            raise ValueError(
                f"`height` and `width` have to be divisible by {scale} but are {height} and {width}."
            )
        return height, width

    def _sampling(self, num_inference_steps: int, strength: float | None = None) -> Sampling:
        max_rows = 2 * int(self.scheduler.config.get("num_train_timesteps") or 1000)
        return Sampling.of(self.scheduler.table(num_inference_steps, strength=strength), max_rows=max_rows)

    # The arithmetic of one device: pure JAX.

    @abstractmethod
    def _condition(self, bound: Bound, inputs: Inputs, form: CallForm) -> Condition:
        """Return the UNet's conditioning."""

    def _start(self, bound: Bound, inputs: Inputs, sampling: Sampling, form: CallForm) -> Start:  # noqa: ARG002
        """Return the first latents: noise, unless a pipeline starts from a picture."""
        return Start(self._noise(inputs, form) * sampling.init_noise_sigma)

    def _noise(self, inputs: Inputs, form: CallForm, dtype: DTypeLike = jnp.float32) -> jax.Array:
        """Return standard noise (n, h, w, c): the call's own, or drawn from the call's key."""
        scale, channels = self.vae_scale_factor, int(self.vae.config["latent_channels"])
        shape = (inputs.prompt_ids.shape[0], form.height // scale, form.width // scale, channels)
        if inputs.noise is None:
            return normal(inputs.key, shape, dtype)
        expected = (shape[0], channels, *shape[1:3])
        if inputs.noise.shape != expected:
            raise ValueError(f"Unexpected latents shape, got {inputs.noise.shape}, expected {expected}")
        return channels_last(inputs.noise)

    def _bind(self, params: Params) -> Bound:
        """Return the networks with these parameters."""
        return Bound(
            text_encoders=tuple(getattr(self, name).bind(params[name]) for name in self.text_encoder_names),
            unet=self.unet.bind(params["unet"]),
            vae=self.vae.bind(params["vae"]),
        )

    def _paint(self, params: Params, inputs: Inputs, sampling: Sampling, form: CallForm) -> jax.Array:
        """Return the pictures (n, height, width, 3) from 0 to 1 float32, or latents (n, c, h, w)."""
        bound = self._bind(params)
        inputs = inputs._replace(key=as_threefry(inputs.key))
        condition = self._condition(bound, inputs, form)
        with usual_bits():
            start = self._start(bound, inputs, sampling, form)
            latents = latents_of(bound, condition, start, inputs, sampling, form)
        if form.latents_only:
            return channels_first(latents)
        return decode(bound.vae, latents, float(self.vae.config["scaling_factor"]))

    # Running on the devices.

    def _show(self, params: Params, inputs: Inputs, sampling: Sampling, form: CallForm) -> Shown:
        """Return what `_paint` returns, with unfit pictures made black, and the safety checker's verdicts."""
        images = self._paint(params, inputs, sampling, form)
        if self.safety_checker is None or not form.checked:
            return Shown(images)
        return checked(
            self.safety_checker.bind(params["safety_checker"]),
            images,
            settle_preprocessing(self.feature_extractor or {}),
        )

    @cached_property
    def _alone(self) -> Any:
        return jax.jit(self._show, static_argnames="form")

    @cached_property
    def _on_each(self) -> Any:
        def paint(params: Params, inputs: Inputs, sampling: Sampling, *, form: CallForm, mesh: Mesh) -> Any:
            def one(params: Params, inputs: Inputs, sampling: Sampling) -> Any:
                return self._show(params, inputs, sampling, form)

            return over(mesh, one, (params, inputs), sampling)

        return jax.jit(paint, static_argnames=("form", "mesh"))

    def _run(self, params: Params, inputs: Inputs, sampling: Sampling, form: CallForm, *, jit: bool) -> Shown:
        """Return what `_show` returns. With `jit` it is computed on all devices of the leading axis."""
        if not jit:
            return Shown(*self._alone(params, inputs, sampling, form=form))
        mesh = mesh_over(len(inputs.prompt_ids))
        params, inputs = place((params, inputs), mesh)
        return Shown(*self._on_each(params, inputs, sampling, form=form, mesh=mesh))


def keep_at_host(parameter: npt.NDArray[Any]) -> jax.Array:
    """Return the parameter in host memory if JAX has a CPU platform, else on the default device."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX has no CPU platform
        device = jax.local_devices()[0]
    array: jax.Array = jax.device_put(parameter, device)
    return array

"""A member of the sandbox as a Python object, for the demo and the tests."""

from __future__ import annotations

import asyncio
import json
import mimetypes
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from bot.sandbox.component_rules import walk
from bot.sandbox.components import media
from bot.sandbox.rejections import Json
from bot.sandbox.uploads import UNKNOWN_TYPE

Found = TypeVar("Found")
File = bytes | tuple[str, bytes] | tuple[str, bytes, str]
TIMEOUT = 30.0


class RefusedByClient(Exception):
    """Discord's client does not let the member do this; the message says why."""


class InteractionFailed(Exception):
    """The bot did not respond; the message is the text that the member sees."""


class Member:
    """One member in the sandbox at `address`, by name ("Mina") or id.

    Use it as `async with Member(address, "Mina") as mina:`; channels are given by name or id.
    """

    def __init__(self, address: str, name: str, *, channel: str = "art") -> None:
        self.name = name
        self.channel = channel
        self._address = address
        self._session: aiohttp.ClientSession | None = None
        self._left = AsyncExitStack()
        self._changed = asyncio.Condition()
        self._changes = 0
        self.events: list[Json] = []

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as entered:
            self._session = await entered.enter_async_context(aiohttp.ClientSession())
            events = self._session.ws_connect(f"{self._address}/sandbox/events", params={"member": self.name})
            socket = await entered.enter_async_context(events)
            listener = asyncio.create_task(self._listen(socket), name=f"{self.name} listens")
            entered.push_async_callback(_ended, listener)
            self._left = entered.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._left.aclose()

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            async with self._changed:
                self.events.append(message.json())
                self._changes += 1
                self._changed.notify_all()

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use the member in `async with`")
        return self._session

    async def _get(self, path: str, **params: str) -> Any:
        async with self._http.get(f"{self._address}/sandbox/{path}", params=params) as response:
            return await _checked(response)

    async def _post(self, path: str, **body: Any) -> Any:
        async with self._http.post(
            f"{self._address}/sandbox/{path}", json={"member": self.name, **body}
        ) as response:
            return await _checked(response)

    async def state(self) -> Json:
        """Return the state of the server that the member sees."""
        seen: Json = await self._get("state", member=self.name)
        return seen

    async def messages(self, channel: str | None = None, interaction: str = "") -> list[Json]:
        """Return the messages that the member sees in a channel, oldest first.

        With the id of an `interaction`, only its answers.
        """
        where = {"member": self.name, "channel": channel or self.channel}
        seen: list[Json] = await self._get("messages", **where, interaction=interaction)
        return seen

    async def use(self, command: str, *, channel: str | None = None, **options: Any) -> str:
        """Use a slash command and return the interaction's id; refusals raise `RefusedByClient`.

        `channel` is where the command is used; an option of this name is given as `channel_`. A file option
        is given as bytes, as (filename, bytes) or as (filename, bytes, content type). Without a content type,
        the type follows from the filename.
        """
        options = {name.removesuffix("_"): value for name, value in options.items()}
        filled: Json = {"channel": channel or self.channel, "name": command, "options": options}
        files = {name: given for name, given in options.items() if isinstance(given, bytes | tuple)}
        if not files:
            answer = await self._post("command", **filled)
        else:
            numbers = {name: number for number, name in enumerate(files)}
            filled["options"] = options | numbers
            answer = await self._upload("command", list(files.values()), **filled)
        return str(answer["interaction_id"])

    async def _upload(self, path: str, files: list[File], **body: Any) -> Any:
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("payload_json", json.dumps({"member": self.name, **body}))
        for number, file in enumerate(files):
            filename, data, claim = _described(file)
            form.add_field(f"files[{number}]", data, filename=filename, content_type=claim)
        async with self._http.post(f"{self._address}/sandbox/{path}", data=form) as response:
            return await _checked(response)

    async def imagine(self, *, channel: str | None = None, **options: Any) -> str:
        """Use /imagine and return the interaction's id; files as `use` takes them."""
        return await self.use("imagine", channel=channel, **options)

    async def autocomplete(
        self, command: str, focused: str, typed: str = "", *, channel: str | None = None, **options: Any
    ) -> list[Json]:
        """Return the suggestions for the option `focused` whose value so far is `typed`."""
        filled = {**options, focused: typed}
        where = channel or self.channel
        answer = await self._post(
            "autocomplete", channel=where, name=command, options=filled, focused=focused
        )
        if "error" in answer:
            raise InteractionFailed(answer["error"])
        choices: list[Json] = answer["choices"]
        return choices

    async def press(self, message: Json, label: str, *, values: list[str] | None = None) -> str:
        """Press the button with this label, or choose from the menu with this placeholder or custom id."""
        for _, component in walk(message["components"]):
            names = (component.get("label"), component.get("placeholder"), component.get("custom_id"))
            if component.get("custom_id") and label in names:
                custom_id = component["custom_id"]
                answer = await self._post(
                    "press", message=message["id"], custom_id=custom_id, values=values or []
                )
                return str(answer["interaction_id"])
        raise RefusedByClient(f"The message has nothing called {label}.")

    async def menu(self, message: Json, name: str) -> str:
        """Use a message command and return the interaction's id."""
        answer = await self._post("menu", message=message["id"], name=name)
        return str(answer["interaction_id"])

    async def say(self, content: str = "", *files: File, channel: str | None = None) -> Json:
        """Post a message, with files as `use` takes them, and return it."""
        where = channel or self.channel
        if not files:
            said: Json = await self._post("say", channel=where, content=content)
        else:
            said = await self._upload("say", list(files), channel=where, content=content)
        return said

    async def submit(self, modal: Json, **values: Any) -> str:
        """Submit a modal (as the event MODAL carried it) and return the new interaction's id.

        The value of an upload is a file as `use` takes them, or a list of files.
        """
        files: list[File] = []
        for name, value in values.items():
            given = value if isinstance(value, list) else [value]
            if given and all(isinstance(file, bytes | tuple) for file in given):
                values[name] = list(range(len(files), len(files) + len(given)))
                files += given
        filled: Json = {"interaction": modal["interaction_id"], "values": values}
        answer = await (self._upload("modal", files, **filled) if files else self._post("modal", **filled))
        return str(answer["interaction_id"])

    async def delete(self, message: Json) -> None:
        """Delete a message as a moderator, or dismiss an ephemeral one."""
        await self._post("delete", message=message["id"])

    async def react(self, message: Json, emoji: str, *, on: bool = True) -> None:
        """Add a reaction, or remove it."""
        await self._post("react", message=message["id"], emoji=emoji, on=on)

    async def install(self, installed: bool = True) -> None:
        """Install the bot in the member's account, or uninstall it."""
        await self._post("install", installed=installed)

    async def accept_dms(self, accepts: bool) -> None:
        """Open or close the member's direct messages with the bot."""
        await self._post("dms", accepts=accepts)

    async def attachment_bytes(self, message: Json, index: int = 0) -> bytes:
        """Return the content of a message's attachment."""
        async with self._http.get(message["attachments"][index]["url"]) as response:
            response.raise_for_status()
            return await response.read()

    async def pictures(self, message: Json) -> list[bytes]:
        """Return the pictures in a message's galleries and thumbnails, in order."""
        shown: list[bytes] = []
        for medium in media(message["components"]):
            async with self._http.get(medium["url"]) as response:
                response.raise_for_status()
                shown.append(await response.read())
        return shown

    async def violations(self) -> list[str]:
        """Return the sandbox's log of violations."""
        seen: list[str] = await self._get("log")
        return seen

    async def misbehave(self, **faults: Any) -> None:
        """Inject faults (see `Sandbox.misbehave`)."""
        async with self._http.post(f"{self._address}/sandbox/misbehave", json=faults) as response:
            await _checked(response)

    async def wait_for(
        self,
        found: Callable[[list[Json]], Found | None],
        *,
        channel: str | None = None,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - the deadline is part of what is asked
    ) -> Found:
        """Wait until `found(messages)` of a channel returns a true value, and return it."""

        async def look() -> Found | None:
            return found(await self.messages(channel))

        return await self._until(look, timeout, "no such message")

    async def wait_for_message(
        self,
        predicate: Callable[[Json], bool],
        *,
        channel: str | None = None,
        timeout: float = TIMEOUT,  # noqa: ASYNC109
    ) -> Json:
        """Wait for a message that `predicate` accepts, and return the newest one."""

        def newest(messages: list[Json]) -> Json | None:
            return next(filter(predicate, reversed(messages)), None)

        return await self.wait_for(newest, channel=channel, timeout=timeout)

    async def message_of(
        self,
        interaction: str,
        predicate: Callable[[Json], bool] = lambda message: not message["flags"] & 128,
        *,
        channel: str | None = None,
        timeout: float = TIMEOUT,  # noqa: ASYNC109
    ) -> Json:
        """Wait for the answer to an interaction that is not "thinking…", or that `predicate` accepts.

        Raises `InteractionFailed` if the member sees that the bot did not respond.
        """

        async def look() -> Json | None:
            self._raise_if_failed(interaction)
            return next(filter(predicate, await self.messages(channel, interaction)), None)

        return await self._until(look, timeout, f"no answer to {interaction}")

    async def modal_of(
        self,
        interaction: str,
        *,
        timeout: float = TIMEOUT,  # noqa: ASYNC109
    ) -> Json:
        """Wait for the modal that an interaction opens."""

        async def look() -> Json | None:
            self._raise_if_failed(interaction)
            return next(
                (modal for modal in self._heard("MODAL") if modal["interaction_id"] == interaction), None
            )

        return await self._until(look, timeout, f"no modal for {interaction}")

    def _heard(self, event: str) -> list[Json]:
        return [each["data"] for each in self.events if each["type"] == event]

    def _raise_if_failed(self, interaction: str) -> None:
        for failure in self._heard("INTERACTION_FAILED"):
            if failure["interaction_id"] == interaction:
                raise InteractionFailed(failure["message"])

    async def _until(self, look: Callable[[], Awaitable[Found | None]], seconds: float, why: str) -> Found:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    seen = self._changes
                    result = await look()
                    if result:
                        return result
                    async with self._changed:
                        while self._changes == seen:
                            await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{why} within {seconds:g} s") from None


def _described(file: File) -> tuple[str, bytes, str]:
    """Return a file's name, bytes and content type; the type follows from the name, as in browsers."""
    filename, data, *claimed = ("image.png", file) if isinstance(file, bytes) else file
    return filename, data, claimed[0] if claimed else mimetypes.guess_type(filename)[0] or UNKNOWN_TYPE


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _checked(response: aiohttp.ClientResponse) -> Any:
    answer = await response.json()
    if response.status == 400:
        raise RefusedByClient(" ".join(answer["errors"]))
    response.raise_for_status()
    return answer

"""A container engine, by the Docker API: the only place that knows the library."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Self

import msgspec

from holdfast.leaf.errors import BadInput, Denied

_ROUNDS = 50
_PATIENCE = 60.0  # seconds, for an answer
_OLDEST = "1.41"
_LOCAL = "unix://"
_LIMITS = {"nofile": 16384, "nproc": 16384}  # said in so many words: an engine's own may be more than it may give


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A container to be made. Places are paths of the host, at the same path inside, and whether they are writable."""

    parent: int  # the process for which it is made
    address: str
    image: str
    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    places: list[tuple[str, bool]]
    network: bool


class Engine:
    """A connection to one. A context: it is closed with it."""

    def __init__(self, address: str) -> None:
        import docker  # noqa: PLC0415 - an optional extra

        self._address = address
        self._docker = docker
        with self._asked("be reached"):
            self._api = self._connected()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.close()

    def must_have(self, image: str) -> None:
        with self._asked(f"be asked for image {image}"):
            try:
                self._api.inspect_image(image)
            except self._docker.errors.ImageNotFound:
                raise BadInput(
                    f"the container engine at {self._address} has no image {image}, and none is pulled by itself; "
                    f"pull or build it: docker pull {image}"
                ) from None

    def create(self, order: Order) -> str:
        """A container that is made and not yet started: an agent with no more rights than it needs."""
        types = self._docker.types
        with self._asked("make a container"):
            host = self._api.create_host_config(
                mounts=[
                    types.Mount(path, path, type="bind", read_only=not writable) for path, writable in order.places
                ],
                tmpfs={"/tmp": "mode=1777"},  # noqa: S108 - the container's own
                network_mode="host" if order.network else "none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                init=True,
                log_config=types.LogConfig(type="none"),  # what it says is in the run's log, and need not be in another
                ulimits=[types.Ulimit(name=name, soft=most, hard=most) for name, most in _LIMITS.items()],
            )
            made = self._api.create_container(
                order.image,
                entrypoint=list(order.command),
                command=[],
                working_dir=order.cwd,
                environment=dict(order.environment),
                labels=dict(order.labels),
                user=self._user(),
                stdin_open=True,
                stop_timeout=0,  # whoever removes it does not ask it to leave first
                host_config=host,
            )
        return str(made["Id"])

    def attach(self, container: str) -> socket.socket:
        """Its input and, in frames, its outputs. Before it is started: what comes with the answer would be lost."""
        with self._asked("attach to a container"):
            found = self._api.attach_socket(container, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        pipe: socket.socket = getattr(found, "_sock", found)
        pipe.settimeout(None)
        return pipe

    def start(self, container: str) -> None:
        with self._asked("start a container"):
            self._api.start(container)

    def wait(self, container: str) -> int:
        with self._asked("wait for a container"):
            return int(self._api.wait(container, timeout=None)["StatusCode"])

    def end(self, labels: Mapping[str, str]) -> None:
        """Kill and remove all that have these labels, started or not, and see them gone."""
        wanted = {"label": [f"{name}={value}" for name, value in labels.items()]}
        found: list[dict[str, Any]] = []
        for _ in range(_ROUNDS):
            with self._asked(f"end the containers of {', '.join(labels.values())}"):
                found = self._api.containers(all=True, filters=wanted)
                if not found:
                    return
                for one in found:
                    self.remove(one["Id"])
        left = ", ".join(one["Id"][:12] for one in found)
        raise Denied(f"containers at {self._address} will not go ({left}); remove them, and try again")

    def found(self, labels: Mapping[str, str], *, running: bool = False) -> list[str]:
        """The ids of those that have these labels; with `running` only of those that are."""
        wanted = {"label": [f"{name}={value}" for name, value in labels.items()]}
        with self._asked("list containers"):
            return [str(one["Id"]) for one in self._api.containers(all=not running, filters=wanted)]

    def remove(self, container: str) -> None:
        """Dead or alive. One that somebody else is removing is waited for."""
        with self._asked("remove a container"):
            try:
                self._api.remove_container(container, force=True, v=True)
            except self._docker.errors.NotFound:
                return
            except self._docker.errors.APIError as error:
                if error.status_code != 409:  # noqa: PLR2004 - it is being removed
                    raise
                self._api.wait(container, condition="removed")

    def _connected(self) -> Any:
        """By the version of the API that it has, asked for in the quick way: some take seconds to tell all versions."""
        if self._address.startswith(_LOCAL):  # where nobody listens the library would leave a socket open
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(self._address.removeprefix(_LOCAL))
        about = {**self._docker.utils.kwargs_from_env(), "base_url": self._address}
        with closing(self._docker.APIClient(**about, version=_OLDEST)) as first:
            answer = first.get(f"{first.base_url}/_ping", timeout=_PATIENCE)
        return self._docker.APIClient(**about, version=answer.headers.get("Api-Version", _OLDEST))

    def _user(self) -> str:
        """Ours, so that what it writes is ours too; an engine without root rights has us for root."""
        path = self._address.removeprefix(_LOCAL)
        own = os.getuid() != 0 and os.path.exists(path) and os.stat(path).st_uid == os.getuid()
        return "0:0" if own else f"{os.getuid()}:{os.getgid()}"

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Its errors, and those of the way to it, as ours."""
        errors = self._docker.errors
        try:
            yield
        except errors.APIError as error:
            raise Denied(f"the container engine at {self._address} would not {what}: {error.explanation}") from None
        except (errors.DockerException, OSError) as error:
            raise Denied(
                f"the container engine at {self._address} cannot {what} ({_short(error)}); "
                "start it, or set its socket or DOCKER_HOST"
            ) from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

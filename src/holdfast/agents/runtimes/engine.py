"""A container engine, through the Docker API. Only this module uses the library."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Self

import msgspec

from holdfast.leaf.errors import BadInput, Denied

_MAX_ROUNDS = 50
_TIMEOUT_S = 60.0  # for an answer
_MIN_API_VERSION = "1.41"
_UNIX_PREFIX = "unix://"
_ULIMITS = {"nofile": 16384, "nproc": 16384}  # explicit: an engine's defaults may exceed what it is allowed to set


class ContainerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A container to create. `places` are paths of the host, mounted at the same path; True if writable."""

    parent: int  # the process that requests it
    address: str
    image: str
    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    places: list[tuple[str, bool]]
    network: bool


class ContainerEngine:
    """A connection to a container engine. A context manager, which closes it."""

    def __init__(self, address: str) -> None:
        import docker  # noqa: PLC0415 - an optional extra

        self._address = address
        self._docker = docker
        with self._translate_errors("accept a connection"):
            self._api = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.close()

    def check_image(self, image: str) -> None:
        with self._translate_errors(f"inspect image {image}"):
            try:
                self._api.inspect_image(image)
            except self._docker.errors.ImageNotFound:
                raise BadInput(
                    f"the container engine at {self._address} has no image {image}, and Holdfast does not pull images; "
                    f"pull or build it: docker pull {image}"
                ) from None

    def create(self, request: ContainerRequest) -> str:
        """Create a container with no more rights than an agent needs, without starting it."""
        types = self._docker.types
        with self._translate_errors("make a container"):
            host = self._api.create_host_config(
                mounts=[
                    types.Mount(path, path, type="bind", read_only=not writable) for path, writable in request.places
                ],
                tmpfs={"/tmp": "mode=1777"},  # noqa: S108 - inside the container
                network_mode="host" if request.network else "none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                init=True,
                log_config=types.LogConfig(type="none"),  # its output is in the run's log already
                ulimits=[types.Ulimit(name=name, soft=most, hard=most) for name, most in _ULIMITS.items()],
            )
            container = self._api.create_container(
                request.image,
                entrypoint=list(request.command),
                command=[],
                working_dir=request.cwd,
                environment=dict(request.environment),
                labels=dict(request.labels),
                user=self._user(),
                stdin_open=True,
                stop_timeout=0,  # removing it kills it at once
                host_config=host,
            )
        return str(container["Id"])

    def attach(self, container_id: str) -> socket.socket:
        """Return a socket for its input and its framed outputs. Attach before the start: early output would be lost."""
        with self._translate_errors("attach to a container"):
            found = self._api.attach_socket(container_id, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        pipe: socket.socket = getattr(found, "_sock", found)
        pipe.settimeout(None)
        return pipe

    def start(self, container_id: str) -> None:
        with self._translate_errors("start a container"):
            self._api.start(container_id)

    def wait(self, container_id: str) -> int:
        with self._translate_errors("wait for a container"):
            return int(self._api.wait(container_id, timeout=None)["StatusCode"])

    def remove_all(self, labels: Mapping[str, str]) -> None:
        """Kill and remove all containers with these labels, started or not, and check that none is left."""
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        found: list[dict[str, Any]] = []
        for _ in range(_MAX_ROUNDS):
            with self._translate_errors(f"end the containers of {', '.join(labels.values())}"):
                found = self._api.containers(all=True, filters=filters)
                if not found:
                    return
                for container in found:
                    self.remove(container["Id"])
        ids = ", ".join(container["Id"][:12] for container in found)
        raise Denied(f"cannot remove containers at {self._address} ({ids}); remove them yourself, and try again")

    def find_containers(self, labels: Mapping[str, str], *, only_running: bool = False) -> list[str]:
        """Return the ids of the containers with these labels."""
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        with self._translate_errors("list containers"):
            found = self._api.containers(all=not only_running, filters=filters)
            return [str(container["Id"]) for container in found]

    def remove(self, container_id: str) -> None:
        """Remove a container, running or not. Waits for one that another process is removing."""
        with self._translate_errors("remove a container"):
            try:
                self._api.remove_container(container_id, force=True, v=True)
            except self._docker.errors.NotFound:
                return
            except self._docker.errors.APIError as error:
                if error.status_code != 409:  # noqa: PLR2004 - it is being removed
                    raise
                self._api.wait(container_id, condition="removed")

    def _connect(self) -> Any:
        """Connect with the engine's API version, taken from `_ping`: some engines need seconds for `version`."""
        if self._address.startswith(_UNIX_PREFIX):  # without a listener, the library would leave a socket open
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(self._address.removeprefix(_UNIX_PREFIX))
        options = {**self._docker.utils.kwargs_from_env(), "base_url": self._address}
        with closing(self._docker.APIClient(**options, version=_MIN_API_VERSION)) as first:
            answer = first.get(f"{first.base_url}/_ping", timeout=_TIMEOUT_S)
        return self._docker.APIClient(**options, version=answer.headers.get("Api-Version", _MIN_API_VERSION))

    def _user(self) -> str:
        """Return our user, so that we own what the agent writes; a rootless engine maps root to us."""
        path = self._address.removeprefix(_UNIX_PREFIX)
        is_rootless = os.getuid() != 0 and os.path.exists(path) and os.stat(path).st_uid == os.getuid()
        return "0:0" if is_rootless else f"{os.getuid()}:{os.getgid()}"

    @contextmanager
    def _translate_errors(self, operation: str) -> Iterator[None]:
        """Raise errors of the engine and of the connection as ours."""
        errors = self._docker.errors
        try:
            yield
        except errors.APIError as error:
            raise Denied(
                f"the container engine at {self._address} refused to {operation}: {error.explanation}"
            ) from None
        except (errors.DockerException, OSError) as error:
            raise Denied(
                f"the container engine at {self._address} cannot {operation} ({_short_message(error)}); "
                "start it, or set its socket or DOCKER_HOST"
            ) from None


def _short_message(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

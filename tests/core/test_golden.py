import msgspec
import pytest

from holdfast.core.events import TYPES
from holdfast.core.log import chain
from holdfast.core.log.codec import CODEC, Line, data_of, parse
from holdfast.core.log.verification import Verifier
from tests.core.examples import EXAMPLES
from tests.golden import make


def head_of(raw: bytes) -> Line:
    head = parse(raw)
    assert isinstance(head, Line)
    return head


GOLDEN = make.EVENTS_V1.read_bytes().splitlines()
NAMES = [f"{seq}-{head_of(raw).type}" for seq, raw in enumerate(GOLDEN)]
NEWEST = {head_of(raw).type: seq for seq, raw in enumerate(GOLDEN)}


def test_every_event_type_has_an_example_with_every_field_filled() -> None:
    assert EXAMPLES.keys() == TYPES.keys()
    for event in EXAMPLES.values():
        assert None not in [getattr(event, name) for name in event.__struct_fields__], event


def test_every_event_type_and_every_field_has_a_golden_line() -> None:
    lacking = [head_of(raw).type for raw in make.missing(make.EVENTS_V1.read_bytes()).splitlines()]
    assert not lacking, f"no golden line for {lacking}: see {make.__file__}"


@pytest.mark.parametrize(("name", "seq"), NEWEST.items(), ids=NEWEST)
def test_the_encoder_still_writes_the_newest_golden_line(name: str, seq: int) -> None:
    previous = chain.carried_link(GOLDEN[seq - 1]) if seq else chain.GENESIS
    assert previous is not None
    assert make.line(previous, seq, EXAMPLES[name]) == GOLDEN[seq]


@pytest.mark.parametrize("raw", GOLDEN, ids=NAMES)
def test_every_golden_line_still_reads_as_the_event_it_was(raw: bytes) -> None:
    head = head_of(raw)
    written = data_of(head).keys()
    assert written <= make.fields_of(TYPES[head.type]), "a field was renamed or removed"
    since = {
        field.name: field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        for field in msgspec.structs.fields(TYPES[head.type])
        if field.encode_name not in written
    }
    assert CODEC.event(head) == msgspec.structs.replace(EXAMPLES[head.type], **since)
    version = TYPES[head.type].envelope_version
    assert (head.v, head.sid, head.feature, head.agent) == (version, "f4e3d2c1b5a4", "auth-system", "service-eng")


def test_the_golden_lines_are_one_whole_chain() -> None:
    verifier = Verifier(must_be_chained=True)
    verifier.feed(make.EVENTS_V1.read_bytes())
    (damage,) = verifier.result().damage  # no record confirms the example of a withheld line
    assert damage.line == len(GOLDEN) + 1


def test_making_golden_lines_only_adds_what_is_missing() -> None:
    lines = make.EVENTS_V1.read_bytes().splitlines(keepends=True)
    assert make.missing(b"".join(lines)) == b""
    assert make.missing(b"".join(lines[:-1])) == lines[-1]


def test_a_golden_line_from_before_a_field_existed_gets_a_newer_one_beside_it() -> None:
    old = b"".join(raw + b"\n" for raw in GOLDEN).replace(b'"host":"box",', b"")
    (new,) = make.missing(old).splitlines()
    assert head_of(new).type == "session.start"
    assert data_of(head_of(new))["host"] == "box"

from pathlib import Path

from holdfast.store.files.reading import FileLog


async def test_a_torn_end_that_is_replaced_during_a_look_is_not_mixed_with_what_comes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole, new = b'{"sid":"s","seq":0,"type":"x"}\n', b'{"sid":"s","seq":1,"type":"a.whole.new.line"}\n'
    path.write_bytes(whole + b'{"torn by a kill')
    reading = FileLog(str(path)).read()
    assert (await anext(reading)).data == whole
    path.write_bytes(whole + new)
    assert [batch.data async for batch in reading] in ([], [new])

import os
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from longrank.core.disk import atomic_file, atomic_folder, write_atomic
from longrank.core.errors import DataError, LongrankError, SettingsError, UnknownName
from longrank.core.fingerprint import file_hash, fingerprint
from longrank.core.registry import Registry
from longrank.core.seeds import derive, generator
from longrank.core.settings import Settings, apply_overrides, load_settings, to_spec
from longrank.core.types import Spec


class Inner(Settings):
    rate: float = 1.0


class Outer(Settings):
    name: str
    inner: Inner = Inner()


def test_settings_come_from_toml_with_overrides_on_top(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('name = "a"\n[inner]\nrate = 0.5\n')
    assert load_settings(Outer, path, ["inner.rate=0.25"]) == Outer(name="a", inner=Inner(rate=0.25))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('nam = "a"', "nam"),
        ('name = "a"\n[inner]\nrate = "fast"', r"inner\.rate"),
        ("name = ", "not valid TOML"),
    ],
)
def test_bad_settings_name_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=said) as caught:
        load_settings(Outer, path)
    assert "s.toml" in str(caught.value)


def test_a_missing_settings_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no settings file"):
        load_settings(Outer, tmp_path / "none.toml")


@pytest.mark.parametrize("override", ["rate", "=3", "name.first=x"])
def test_an_override_of_the_wrong_form_is_refused(override: str) -> None:
    with pytest.raises(SettingsError, match="override"):
        apply_overrides({"name": "a"}, [override])


def test_tables_with_a_name_become_specs() -> None:
    table = {"name": "maxp", "params": {"backbone": {"name": "tiny"}, "size": 10}}
    assert to_spec(table) == Spec("maxp", {"backbone": Spec("tiny"), "size": 10})
    with pytest.raises(SettingsError, match="a spec is a table"):
        to_spec({"name": "maxp", "sise": 10})


def test_a_registry_builds_inner_specs_with_the_registry_of_their_name() -> None:
    wheels: Registry[str] = Registry("wheel")
    cars: Registry[str] = Registry("car")
    wheels.add("round")(lambda *, size=1: f"round {size}")
    cars.add("small")(lambda wheel, *, doors=2: f"{doors} doors, {wheel}")
    built = cars.build(Spec("small", {"wheel": Spec("round", {"size": 3}), "doors": 4}), {"wheel": wheels})
    assert built == "4 doors, round 3"


def test_a_miss_suggests_the_nearest_name() -> None:
    cars: Registry[str] = Registry("car")
    cars.add("small")(lambda wheel="w", *, doors=2: "")
    with pytest.raises(UnknownName, match=r"no car 'smal'\. Did you mean 'small'\?"):
        cars.build(Spec("smal"))
    with pytest.raises(SettingsError, match=r"no parameter 'dors'\. Did you mean 'doors'\?"):
        cars.build(Spec("small", {"dors": 1}))
    with pytest.raises(SettingsError, match="nothing builds a 'wheel'"):
        cars.build(Spec("small", {"wheel": Spec("round")}))


def test_a_value_that_is_no_choice_is_refused_with_the_choices_and_the_nearest() -> None:
    cars: Registry[str] = Registry("car")

    @cars.add("small")
    def small(
        colour: Literal["red", "blue"] = "red", *, roof: Literal["open"] | None = None, doors: int | str = 2
    ) -> str:
        return f"{colour} {roof} {doors}"

    assert cars.build(Spec("small", {"colour": "blue", "roof": None, "doors": "two"})) == "blue None two"
    with pytest.raises(
        SettingsError, match=r"car 'small': colour is 'red' or 'blue', not 'Blue'\. Did you mean 'blue'\?"
    ):
        cars.build(Spec("small", {"colour": "Blue"}))
    with pytest.raises(SettingsError, match=r"roof is 'open', or left out, not 3\.$"):
        cars.build(Spec("small", {"roof": 3}))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"doors": "two"}, "doors is a whole number, not 'two'"),
        ({"doors": 2.5}, "doors is a whole number, not 2.5"),
        ({"doors": True}, "doors is a whole number, not True"),
        ({"length": "4"}, "length is a number, or left out, not '4'"),
        ({"fast": 1}, "fast is true or false, not 1"),
        ({"maker": 7}, "maker is text, not 7"),
    ],
)
def test_a_value_of_another_kind_than_annotated_is_refused(params: dict[str, object], said: str) -> None:
    cars: Registry[str] = Registry("car")

    @cars.add("small")
    def small(*, doors: int = 2, length: float | None = None, fast: bool = False, maker: str = "") -> str:
        return f"{doors} {length} {fast} {maker}"

    good = {"doors": np.int64(3), "length": 4, "fast": True, "maker": "me"}
    assert cars.build(Spec("small", good)) == "3 4 True me"
    assert cars.build(Spec("small", {"maker": Path("a/folder")})) == "2 None False a/folder"
    with pytest.raises(SettingsError) as refused:
        cars.build(Spec("small", params))
    assert f"car 'small': {said}." in str(refused.value)


def test_a_part_may_be_given_by_name_or_as_a_table() -> None:
    wheels: Registry[str] = Registry("wheel")
    cars: Registry[str] = Registry("car")
    wheels.add("round")(lambda *, size=1: f"round {size}")
    cars.add("small")(lambda wheel: f"on {wheel}")

    def on(wheel: object) -> str:
        return cars.build(Spec("small", {"wheel": wheel}), {"wheel": wheels})

    assert on("round") == on({"name": "round"}) == on(Spec("round")) == "on round 1"
    assert on({"name": "round", "params": {"size": 3}}) == "on round 3"
    with pytest.raises(UnknownName, match=r"no wheel 'rond'\. Did you mean 'round'"):
        on("rond")
    with pytest.raises(SettingsError, match="a spec is a table with a name and params"):
        on({"nmae": "round"})
    with pytest.raises(SettingsError, match="by its name or as a table"):
        on(3)


def test_a_name_cannot_be_registered_twice() -> None:
    cars: Registry[str] = Registry("car")
    cars.add("small")(lambda: "")
    with pytest.raises(SettingsError, match="twice"):
        cars.add("small")(lambda: "")


def test_generators_depend_on_purpose_and_seed_only() -> None:
    assert generator("a", 1).random() == generator("a", 1).random()
    assert len({derive("a", 0), derive("a", 1), derive("b", 0), derive("a\x00", 0)}) == 4


def test_fingerprints_see_every_value_and_no_order() -> None:
    assert fingerprint(Outer(name="a")) != fingerprint(Outer(name="a", inner=Inner(rate=2)))
    assert fingerprint({"x": [1, 2]}) != fingerprint({"x": [2, 1]})
    assert fingerprint(Spec("a", {"b": Path("c")})) == fingerprint(Spec("a", {"b": "c"}))
    with pytest.raises(TypeError, match="object"):
        fingerprint(object())


def test_a_file_where_a_folder_should_be_is_named_and_not_a_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(OSError, match="exists") as refused,
        atomic_folder(tmp_path / "file" / "folder", mark="mark", what="a test"),
    ):
        pass
    assert refused.value.filename == str(tmp_path / "file")


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    write_atomic(target, "old")
    with pytest.raises(RuntimeError), atomic_file(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with atomic_folder(tmp_path / "folder", mark="mark", what="a test") as temporary:
            (temporary / "mark").touch()
            (temporary / content).write_text(content)
    assert {p.name for p in (tmp_path / "folder").iterdir()} == {"mark", "second"}


def test_a_file_never_takes_the_place_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "work.txt").write_text("years")
    for folder in ("precious", ".", "..", "precious/.."):
        with pytest.raises(DataError, match="is a folder; name a file"):
            write_atomic(Path(folder), "new")
    assert (tmp_path / "precious" / "work.txt").read_text() == "years"


def test_a_device_is_no_file_to_write(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="no plain file"):
        write_atomic(tmp_path / "pipe", "new")
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_to_a_file_or_a_folder_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    for name in ("file", "folder"):
        (tmp_path / "elsewhere" / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(tmp_path / "elsewhere" / name)
    for text in ("old", "new"):
        write_atomic(tmp_path / "file", text)
        with atomic_folder(tmp_path / "folder", mark="mark", what="a test") as temporary:
            (temporary / "mark").write_text(text)
    assert (tmp_path / "file").is_symlink()
    assert (tmp_path / "folder").is_symlink()
    assert (tmp_path / "elsewhere" / "file").read_text() == "new"
    assert (tmp_path / "elsewhere" / "folder" / "mark").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("found", [None, "somebody else's"])
def test_a_folder_that_is_not_ours_is_not_replaced(tmp_path: Path, found: str | None) -> None:
    (tmp_path / "work.txt").write_text("years")
    if found is not None:
        (tmp_path / "mark").write_text(found)
    with (
        pytest.raises(DataError, match="is not a test; choose another folder"),
        atomic_folder(tmp_path, mark="mark", holding="ours", what="a test"),
    ):
        pytest.fail("nothing may begin")
    assert (tmp_path / "work.txt").read_text() == "years"


def test_the_folder_one_stands_in_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="by its name"), atomic_folder(Path(), mark="mark", what="a test"):
        pytest.fail("nothing may begin")


def test_a_file_hash_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    assert file_hash(tmp_path / "f") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_every_error_of_ours_is_drawn_in_the_tree() -> None:
    from longrank.core import errors

    def below(kind: type[LongrankError]) -> set[str]:
        return {kind.__name__}.union(*(below(child) for child in kind.__subclasses__()))

    ours = {name for name in below(LongrankError) if hasattr(errors, name)}
    drawn = errors.__doc__ or ""
    assert not [name for name in ours if name not in drawn]

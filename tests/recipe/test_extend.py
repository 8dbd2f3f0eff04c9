from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builder.errors import RecipeError
from builder.recipe import load

Write = Callable[..., Path]


def refusal(root: Path, name: str) -> str:
    with pytest.raises(RecipeError) as caught:
        load(name, root)
    return str(caught.value)


def test_a_child_that_changes_nothing_is_its_parent_by_another_name(root: Path, write: Write) -> None:
    write("child", text='extends = "good"\n')
    child, parent = load("child", root), load("good", root)
    assert (child.packages, child.target, child.verify) == (parent.packages, parent.target, parent.verify)
    assert child.digest != parent.digest


def test_a_package_is_changed_key_by_key_and_others_stay(root: Path, write: Write) -> None:
    write("child", text='extends = "good"\n[[package]]\nname = "vllm"\ncomponents = ["_moe_C"]\n')
    child, parent = load("child", root), load("good", root)
    assert child.package("vllm").components == ("_moe_C",)
    assert child.package("vllm").commit == parent.package("vllm").commit
    assert [p.name for p in child.packages] == [p.name for p in parent.packages]


def test_tables_merge_and_arrays_replace(root: Path, write: Write) -> None:
    write("child", text='extends = "good"\n[target]\ncuda_arch = ["12.0f"]\n[verify]\nmax_wheel_mb = { vllm = 3 }\n')
    child = load("child", root)
    assert [str(arch) for arch in child.target.cuda_arch] == ["12.0f"]
    assert child.target.python == "3.12"
    assert child.verify["max_wheel_mb"] == {"vllm": 3}
    assert child.verify["instructions"]


def test_only_packages_narrows_and_orders(root: Path, write: Write) -> None:
    write("child", text='extends = "good"\npackages = ["vllm", "flashinfer-python"]\n')
    assert [p.name for p in load("child", root).packages] == ["vllm", "flashinfer-python"]


def test_a_grandchild_sees_what_its_parent_left(root: Path, write: Write) -> None:
    write("child", text='extends = "good"\npackages = ["vllm"]\n')
    write("grandchild", text='extends = "child"\nrevision = 7\n')
    grandchild = load("grandchild", root)
    assert ([p.name for p in grandchild.packages], grandchild.revision) == (["vllm"], 7)


def test_a_new_package_is_added_at_the_end(root: Path, write: Write) -> None:
    more = '[[package]]\nname = "more"\nsource = "flashinfer-python"\n'
    write("child", text=f'extends = "good"\n{more}')
    assert load("child", root).packages[-1].name == "more"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('extends = "god"\n', "extends: there is no recipe 'god', did you mean 'good'?"),
        ('extends = "bad"\n', "extends: a circle: bad → bad"),
        ('extends = "good"\npackages = ["vlm"]\n', "packages: no [[package]] is named 'vlm', did you mean 'vllm'?"),
        (
            'extends = "good"\npackages = ["flashinfer-jit-cache"]\n',
            "source: 'flashinfer-python' is not among the packages built",
        ),
        ('extends = "good"\n[[package]]\nname = "vlm"\n', "[[package]] vlm: key 'commit' is missing"),
        ('extends = "good"\n[[package]]\ncomit = "x"\n', "unknown key 'comit'"),
        ('extends = "good"\n[target]\npythn = "3.12"\n', "[target]: unknown key 'pythn', did you mean 'python'?"),
        ('extends = "good"\n[[package]]\nname = "vllm"\n[[package]]\nname = "vllm"\n', "vllm: named twice"),
    ],
)
def test_a_childs_fault_names_the_child(root: Path, write: Write, text: str, told: str) -> None:
    write("bad", text=text)
    message = refusal(root, "bad")
    assert told in message
    assert "  bad.toml: " in message


def test_a_longer_circle_is_told_in_order(root: Path, write: Write) -> None:
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        write(name, text=f'extends = "{parent}"\n')
    assert "extends: a circle: a → b → c → a" in refusal(root, "a")


def test_a_parents_fault_names_the_parent_and_the_childs_own_the_child(root: Path, write: Write) -> None:
    write("parent", ('platform = "', 'platfrm = "'))
    write("bad", text='extends = "parent"\nrevison = 2\n')
    message = refusal(root, "bad")
    assert "  parent.toml: [target]: unknown key 'platfrm'" in message
    assert "  bad.toml: unknown key 'revison'" in message


def test_a_package_that_is_not_built_needs_no_source(root: Path, write: Write) -> None:
    write("child", ("revision = 1", 'revision = 1\npackages = ["vllm"]'))
    assert [p.name for p in load("child", root).packages] == ["vllm"]


def test_a_source_of_a_source_is_refused(root: Path, write: Write) -> None:
    more = '[[package]]\nname = "more"\nsource = "flashinfer-jit-cache"\n'
    write("bad", text=f'extends = "good"\n{more}')
    assert "'flashinfer-jit-cache' has a source itself; name 'flashinfer-python'" in refusal(root, "bad")

"""Every malformed kind is refused with its line, or handled right; all faults in one run."""

from __future__ import annotations

import pytest

from builder.patches.parse import parse
from builder.patches.paths import Unsafe, name_of, quoted, unquoted
from tests.patches.bench import GitDiff

HEAD = b"--- a/x.py\n+++ b/x.py\n"
GOOD = HEAD + b"@@ -1,3 +1,4 @@ def f():\n one\n+more\n two\n three\n"


def faults(data: bytes) -> list[tuple[int, str]]:
    return [(fault.line, fault.kind) for fault in parse(data).faults]


def test_a_plain_diff_is_read_whole() -> None:
    diff = parse(b"Description: x\n---\n" + GOOD)
    (file,) = diff.files
    (hunk,) = file.hunks
    assert diff.faults == ()
    assert diff.preamble == (b"Description: x\n", b"---\n")
    assert (file.old, file.new, file.kind, file.line) == ("x.py", "x.py", "modify", 3)
    assert (hunk.line, hunk.section, hunk.leading, hunk.trailing) == (5, "def f():", 1, 2)
    assert hunk.old == (b"one\n", b"two\n", b"three\n")
    assert hunk.new == (b"one\n", b"more\n", b"two\n", b"three\n")
    assert hunk.reversed().reversed() == hunk


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ((b"+1,4", b"+1,5"), (3, "counts")),
        ((b"-1,3", b"-1,2"), (3, "counts")),
        ((b"-1,3 +1,4", b"-1,3 +2,4"), (3, "counts")),
        ((b"@@ -1,3", b"@@ 1,3"), (3, "header")),
        ((b"+more\n", b" more\n"), (3, "counts")),
        ((b" two\n", b"two\n"), (6, "syntax")),
        ((b" three\n", b" three"), (7, "newline")),
        ((b"+more\n", b"+more\r\n"), (5, "endings")),
        ((b"+++ b/x.py\n", b"+++ b/y.py\n"), (1, "header")),
        ((b"+++ b/x.py\n", b"+++ b/x.py\r\n"), (2, "crlf")),
        ((b" one\n", b" one\n\\ No newline at end of file\n"), (4, "newline")),
        ((b"a/x.py", b"/etc/passwd"), (1, "path")),
        ((b"b/x.py", b"b/../../x.py"), (2, "path")),
        ((b"b/x.py", b"b/.git/config"), (2, "path")),
        ((b"b/x.py", b"x.py"), (2, "path")),
        ((b"b/x.py", b"b/\xff.py"), (2, "path")),
        ((b"+++ b/x.py", b'+++ "b/x.py'), (2, "path")),
        ((b"+more", b"+mo\0re"), (5, "binary")),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_line(damage: tuple[bytes, bytes], expected: tuple[int, str]) -> None:
    assert expected in faults(GOOD.replace(*damage))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"@@ -1 +1 @@\n-a\n+b\n", (1, "header")),
        (HEAD, (1, "header")),
        (HEAD + b"@@ -1,2 +1,2 @@\n one\n two\n", (3, "syntax")),
        (HEAD + b"@@ -5 +5 @@\n-a\n+b\n@@ -2 +2 @@\n-a\n+b\n", (6, "order")),
        (HEAD + b"@@ -1 +1 @@\n-a\n+b\n-c\n", (3, "counts")),
        (HEAD + b"@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n@@ -9 +9 @@\n-a\n+b\n", (3, "newline")),
        (b"diff --git a/x b/x\nindex 00..11\nGIT binary patch\nliteral 3\n", (2, "header")),
        (b"diff --git a/x b/x\nindex 0000000..1111111\nGIT binary patch\nliteral 3\n", (3, "binary")),
        (b"Binary files a/x and b/x differ\n", (1, "binary")),
        (b"diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n", (2, "mode")),
        (b"diff --git a/s b/s\nold mode 100644\nnew mode 104755\n", (3, "mode")),
        (b"diff --git a/s b/s\nold mode 999999\nnew mode 100755\n", (2, "mode")),
        (b"diff --git a/s b/s\nindex 0000000..1111111 100644\n", (1, "header")),
        (b"diff --git a/s b/s\nrename from a\nrename to s\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-a\n+b\n", (1, "header")),
        (b"diff --git a/s b/s\nnew file mode 100644\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-a\n+b\n", (1, "header")),
        (b"--- /dev/null\n+++ b/s\n@@ -1 +1 @@\n-a\n+b\n", (1, "header")),
        (b"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", (1, "header")),
    ],
)
def test_whole_files_that_say_nonsense(data: bytes, expected: tuple[int, str]) -> None:
    assert expected in faults(data)


def test_a_patch_converted_to_crlf_is_said_once() -> None:
    assert faults(GOOD.replace(b"\n", b"\r\n")) == [(1, "crlf")]


def test_a_crlf_file_in_an_lf_patch_is_no_fault() -> None:
    body = b"@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\r\n"
    assert parse(HEAD + body).faults == ()


def test_a_wrong_count_leaves_the_rest_readable() -> None:
    two = GOOD.replace(b"+1,4", b"+1,9") + b"@@ -20,2 +21,2 @@\n a\n-b\n+c\n"
    diff = parse(two)
    assert [(hunk.line, hunk.faulty) for hunk in diff.files[0].hunks] == [(3, True), (8, False)]
    assert diff.files[0].hunks[0].new == (b"one\n", b"more\n", b"two\n", b"three\n")


def test_a_wrong_count_does_not_swallow_the_next_file() -> None:
    diff = parse(GOOD.replace(b"-1,3 +1,4", b"-1,5 +1,6") + GOOD.replace(b"x.py", b"y.py"))
    assert [file.path for file in diff.files] == ["x.py", "y.py"]
    assert [fault.line for fault in diff.faults] == [3]


def test_removed_lines_that_look_like_headers_stay_lines() -> None:
    diff = parse(HEAD + b"@@ -1,2 +1,2 @@\n--- a/sql comment\n+++ b/plus\n keep\n")
    assert diff.faults == ()
    assert diff.files[0].hunks[0].old == (b"-- a/sql comment\n", b"keep\n")


def test_a_mail_signature_ends_the_last_hunk() -> None:
    assert parse(GOOD + b"-- \n2.39.5\n").faults == ()


def test_an_empty_context_line_may_have_lost_its_space() -> None:
    diff = parse(HEAD + b"@@ -1,3 +1,3 @@\n\n-a\n+b\n c\n")
    assert diff.faults == ()
    assert diff.files[0].hunks[0].old == (b"\n", b"a\n", b"c\n")


def test_git_s_own_patches_of_odd_names_are_read(git_diff: GitDiff) -> None:
    names = ("with space.txt", "ünï/cödé.txt", 'quo"te.txt', "tab\there.txt", "back\\slash.txt")
    data = git_diff(
        dict.fromkeys(names, b"1\n2\n3\n"),
        dict.fromkeys(names, b"1\n2\nthree\n"),
        "--src-prefix=a/",
        "--dst-prefix=b/",
    )
    diff = parse(data.replace(b"a/a/", b"a/").replace(b"b/b/", b"b/"))
    assert diff.faults == ()
    assert sorted(file.path for file in diff.files) == sorted(names)


@pytest.mark.parametrize("path", ["plain.py", "sp ace", "ü", 'q"', "t\tn\n", "b\\s", "\x01\x7f"])
def test_names_survive_quoting(path: str) -> None:
    line = f"{quoted(path, 'a/')}\n".encode()
    assert name_of(line, strip=1) == path


@pytest.mark.parametrize("text", [rb"\q", rb"\777", rb"\1"])
def test_unknown_escapes_are_refused(text: bytes) -> None:
    with pytest.raises(Unsafe):
        unquoted(text)

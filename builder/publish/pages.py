"""The pages of a simple index, as bytes: equal contents, equal bytes.

HTML (PEP 503, 592, 658, 714) is what pip and uv read from a static server; JSON (PEP 691, 700)
lies beside it and is also the index's own memory: a project's state is read from its JSON page.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from builder.publish.entry import IndexFile, Project

if TYPE_CHECKING:
    from jinja2 import Template

_API = "1.3"  # PEP 740, whose `provenance` the pages may carry; what 1.2 has added is optional
_ROOT = """\
<!DOCTYPE html>
<html lang="en">
<head><meta name="pypi:repository-version" content="{{ api }}"><title>Simple index</title></head>
<body>
{% for name in names %}<a href="{{ name }}/">{{ name }}</a><br>
{% endfor %}</body>
</html>
"""
_PROJECT = """\
<!DOCTYPE html>
<html lang="en">
<head><meta name="pypi:repository-version" content="{{ api }}">\
<meta name="serial" content="{{ project.serial }}"><title>{{ project.name }}</title></head>
<body>
<h1>{{ project.name }}</h1>
{% for file in files %}<a href="{{ file.url }}#sha256={{ file.sha256 }}"\
{% if file.requires_python %} data-requires-python="{{ file.requires_python }}"{% endif %} \
data-core-metadata="sha256={{ file.metadata_sha256 }}" data-dist-info-metadata="sha256={{ file.metadata_sha256 }}"\
{% if file.provenance %} data-provenance="{{ file.provenance }}"{% endif %}\
{% if file.yanked is not none %} data-yanked="{{ file.yanked }}"{% endif %}>{{ file.filename }}</a><br>
{% endfor %}</body>
</html>
"""


def project_html(project: Project) -> bytes:
    """The project's page for pip and uv: one link a file, oldest version first."""
    return _template(_PROJECT).render(api=_API, project=project, files=_ordered(project.files)).encode()


def offers(html: bytes, file: IndexFile) -> bool:
    """Whether a page, perhaps older than its JSON, has the file on offer."""
    link = re.search(rb"<a ([^>]*)>" + re.escape(file.filename.encode()) + rb"</a>", html)
    return link is not None and b" data-yanked=" not in link[1]


def project_json(project: Project) -> bytes:
    """The same for programs, with sizes, upload times and versions."""
    page: dict[str, Any] = {
        "meta": {"api-version": _API, "_last-serial": project.serial},
        "name": project.name,
        "versions": list(project.versions),
        "files": [_entry(file) for file in _ordered(project.files)],
    }
    if project.retired:
        page["_retired"] = [asdict(entry) for entry in sorted(project.retired, key=lambda entry: entry.filename)]
    return _json(page)


def root_html(names: Iterable[str]) -> bytes:
    """The list of projects for people and pip."""
    return _template(_ROOT).render(api=_API, names=sorted(names)).encode()


def root_json(names: Iterable[str]) -> bytes:
    """The list of projects for programs."""
    return _json({"meta": {"api-version": _API}, "projects": [{"name": name} for name in sorted(names)]})


def _ordered(files: Iterable[IndexFile]) -> list[IndexFile]:
    return sorted(files, key=lambda file: (file.version, file.filename))


def _entry(file: IndexFile) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "filename": file.filename,
        "url": file.url,
        "hashes": {"sha256": file.sha256},
        "size": file.size,
        "upload-time": file.upload_time,
        "core-metadata": {"sha256": file.metadata_sha256},
        "dist-info-metadata": {"sha256": file.metadata_sha256},
    }
    if file.requires_python:
        entry["requires-python"] = file.requires_python
    if file.yanked is not None:
        entry["yanked"] = file.yanked or True
    if file.provenance:
        entry["provenance"] = file.provenance
    if file.release:
        entry["_release"] = file.release
    if file.statement_sha256:  # not `provenance`: PEP 740 gives that name to signed attestations that the index checked
        entry["_statement"] = {"url": f"../../{quote(file.statement_key)}", "sha256": file.statement_sha256}
    return entry


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@functools.cache
def _template(text: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True).from_string(text)

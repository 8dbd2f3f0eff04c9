"""Sign the provenance of every wheel in a folder: `python .ci/sign.py FOLDER…`, as `./dev sign` calls it.

Sigstore's own program makes the signature; it takes the identity that the CI system gives the job.
What is signed is the predicate of `<wheel>.provenance.json` about the wheel's digest, so the
bundle `<wheel>.sigstore.json` covers the statement word for word.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SUFFIX = ".provenance.json"


def sign(paper: Path) -> None:
    """Write the bundle of one statement; raises CalledProcessError when sigstore refuses."""
    statement = json.loads(paper.read_bytes())
    with tempfile.TemporaryDirectory() as scratch:
        predicate = Path(scratch, "predicate.json")
        predicate.write_text(json.dumps(statement["predicate"]), encoding="utf-8")
        wheel = paper.with_name(paper.name.removesuffix(SUFFIX))
        what = ["--predicate", predicate, "--predicate-type", statement["predicateType"]]
        subprocess.run([sys.executable, "-m", "sigstore", "attest", *what, "--overwrite", wheel], check=True)


def main(folders: list[str]) -> int:
    """Sign all; 2 when there is nothing to sign, 1 when sigstore refuses."""
    papers = [paper for folder in folders for paper in sorted(Path(folder).glob(f"*.whl{SUFFIX}"))]
    if not papers:
        print(f"error: no *.whl{SUFFIX} in {', '.join(folders) or 'no folder'}", file=sys.stderr)
        return 2
    try:
        for paper in papers:
            sign(paper)
    except subprocess.CalledProcessError as error:
        print(f"error: sigstore ended with {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

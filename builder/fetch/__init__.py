"""Files of the user's package index, into the store, by name and digest.

`Index.configured()` says where to look, as pip and uv are told; `fetch` and `fetch_all` bring
files that the store lacks and prove them before anything reads them; `candidates` lists what
the index has of a project, for making locks. Nothing that was downloaded is ever run.
"""

from builder.fetch.download import Fetched, candidates, fetch, fetch_all
from builder.fetch.offers import Candidate
from builder.fetch.settings import Index

__all__ = ["Candidate", "Fetched", "Index", "candidates", "fetch", "fetch_all"]

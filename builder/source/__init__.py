"""Recipe → SourceTree: the pinned sdist or commit, as a git tree that is proven to be the pinned one."""

from builder.source.externals import ExternalsMode, fetch_externals
from builder.source.fetch import NO_TREE, Mode, fetch_source, here
from builder.source.sdist import stated_commit

__all__ = ["NO_TREE", "ExternalsMode", "Mode", "fetch_externals", "fetch_source", "here", "stated_commit"]

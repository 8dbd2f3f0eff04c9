from builder.compile.metadata import edited

TEXT = """Metadata-Version: 2.4
Name: vllm
Version: 0.20.0
Requires-Dist: torch==2.11.0
Requires-Dist: flashinfer-python==0.6.8.post1
Requires-Dist: Flashinfer_Cubin==0.6.8.post1
Requires-Dist: torch>=1; extra == "old"
Provides-Extra: old

Requires-Dist: this is prose
"""


def test_siblings_and_torch_are_pinned_and_prose_is_not_touched() -> None:
    pins = {"torch": "torch==2.12.0", "flashinfer-python": "flashinfer-python==0.6.8+x.1", "absent": "absent==1"}
    text = edited(TEXT, version="0.20.0+x.1", pins=pins)
    assert "Version: 0.20.0+x.1\n" in text
    assert "Requires-Dist: torch==2.12.0\n" in text
    assert "Requires-Dist: flashinfer-python==0.6.8+x.1\n" in text
    assert 'Requires-Dist: torch>=1; extra == "old"' in text
    assert "absent" not in text
    assert text.endswith("\n\nRequires-Dist: this is prose\n")


def test_the_recipes_own_requirements_replace_by_normalised_name_or_are_added() -> None:
    text = edited(TEXT, version="1", pins={}, requires=["flashinfer-cubin==0.6.8", "new-one>=2"])
    assert "Requires-Dist: flashinfer-cubin==0.6.8\n" in text
    assert "Flashinfer_Cubin" not in text
    head = text.split("\n\n")[0]
    assert "Requires-Dist: new-one>=2" in head

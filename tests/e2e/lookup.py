"""Asks the installed FlashInfer whether it would compile modules; started by test_smoke with torch's stand-in."""

import json
import sys
import types
from pathlib import Path

package = types.ModuleType("flashinfer")
package.__path__ = [str(Path(sys.argv[1]) / "flashinfer")]
sys.modules["flashinfer"] = package

import torch  # type: ignore[import-not-found]  # noqa: E402
from flashinfer.jit import fp4_quantization, xqa  # type: ignore[import-not-found]  # noqa: E402


def decode(page_size: int) -> bool:
    spec = xqa.gen_xqa_module(torch.bfloat16, torch.uint8, page_size, 256, 8, False, torch.bfloat16)
    return bool(spec.is_aot)


answers = {
    "fp4_quantization_121": fp4_quantization.gen_fp4_quantization_sm121_module().is_aot,
    "xqa": decode(64),
    "xqa_other_page_size": decode(16),
}
sys.stdout.write(json.dumps(answers))

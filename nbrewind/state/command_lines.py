"""What command lines and scripts tell: paths they name, and what cannot be followed.

Nothing here runs a command or knows every one of them. A program that is not known may
look at what it writes over, so that its outputs count as its inputs too; a program that
acts elsewhere, talks to others or tells of the machine makes the run one that cannot be
followed. In doubt a cell runs again.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import PurePath

from nbrewind.state.file_modes import is_updating, modes_of

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_PYTHON = re.compile(r"python[\d.]*|ipython\d?")
_LONGEST_SCRIPT = 1 << 18

_ELSEWHERE = frozenset(
    {
        # Change installations and services, here or elsewhere.
        *("pip", "pip3", "pipx", "conda", "mamba", "micromamba", "uv", "poetry", "pipenv", "pdm"),
        *("apt", "apt-get", "aptitude", "dpkg", "yum", "dnf", "rpm", "apk", "pacman", "brew"),
        *("snap", "npm", "npx", "yarn", "pnpm", "cargo", "gem", "sudo", "su", "doas", "systemctl"),
        *("service", "crontab", "at", "mount", "umount", "reboot", "shutdown", "modprobe", "chown"),
        # Talk to others.
        *("ssh", "scp", "sftp", "rsync", "ftp", "telnet", "nc", "ncat", "socat", "curl", "wget"),
        *("aria2c", "http", "https", "git", "hg", "svn", "gh", "docker", "podman", "kubectl"),
        *("helm", "terraform", "ansible", "aws", "gcloud", "gsutil", "bq", "az", "s3cmd", "rclone"),
        *("kaggle", "hf", "huggingface-cli", "wandb", "dvc", "mail", "sendmail", "psql", "mysql"),
        *("mongo", "mongosh", "redis-cli", "sqlplus", "spark-submit", "sbatch", "srun", "qsub"),
        # Go on in the background, or meddle with other processes.
        *("nohup", "setsid", "screen", "tmux", "daemonize", "kill", "pkill", "killall", "disown"),
        *("jupyter", "jupyter-nbconvert", "papermill", "nbrewind", "xdg-open", "open"),
        # Tell of the machine, the moment or chance.
        *("date", "ps", "pstree", "top", "htop", "df", "free", "uptime", "who", "whoami", "w"),
        *("id", "hostname", "uname", "nvidia-smi", "rocm-smi", "lscpu", "lsblk", "lsof", "netstat"),
        *("ss", "ip", "ifconfig", "ping", "dig", "nslookup", "uuidgen", "shuf", "mktemp", "env"),
        *("printenv", "ulimit", "dmesg", "journalctl", "vmstat", "iostat", "sensors", "last"),
    }
)
_WORLD = frozenset(
    {"requests", "urllib", "urllib3", "http", "httpx", "aiohttp", "socket", "ftplib", "smtplib"}
    | {"paramiko", "boto3", "botocore", "s3fs", "gcsfs", "wget", "psycopg", "psycopg2", "pymysql"}
    | {"pymongo", "redis", "websocket", "websockets", "grpc", "docker", "kubernetes", "secrets"}
)
"""Python modules by which a script talks to others."""

_KNOWN = frozenset(
    {
        *("cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "rg", "sort", "uniq", "cut", "tr"),
        *("awk", "gawk", "mawk", "sed", "ls", "find", "tree", "file", "stat", "du", "cksum", "sum"),
        *("md5sum", "sha1sum", "sha256sum", "b2sum", "diff", "cmp", "comm", "join", "paste", "nl"),
        *("rev", "tac", "fold", "fmt", "column", "od", "xxd", "hexdump", "strings", "jq", "echo"),
        *("printf", "true", "false", ":", "cd", "pwd", "basename", "dirname", "realpath"),
        *("readlink", "seq", "yes", "expr", "sleep", "set", "export", "unset", "exit", "read"),
        *("shift", "wait", "bc", "tee", "cp", "mv", "rm", "tar", "split", "zcat", "less"),
        *("more", "which", "type", "nproc", "arch", "tput", "clear", "return", "local", "shopt"),
        "chmod",
    }
)
"""Programs that write nothing, or write over what is there without looking at it."""

_TESTS = frozenset({"test", "[", "[["})
_DEPENDING = frozenset({"touch", "mkdir", "rmdir", "ln"})
"""Programs that do something else if what they name is there already."""
_SIGNS = frozenset({"!", "=", "==", "!=", "]", "]]", "<", ">"})
_SPEAKING = frozenset({"echo", "printf", "seq", "sleep", "expr", "exit", "export", "set", "unset"})
"""Programs whose arguments are no paths."""
_CAREFUL_OPTIONS = {
    "cp": frozenset({"-n", "-u", "-i", "--no-clobber", "--update"}),
    "mv": frozenset({"-n", "-u", "-i", "--no-clobber", "--update"}),
    "tee": frozenset({"-a", "--append"}),
    "tar": frozenset({"-r", "-u", "-k", "--append", "--update", "--keep-old-files"}),
}
_RECURSIVE = re.compile(r"-\w*[rR]\w*|--recursive")
_FORCED = re.compile(r"-\w*f\w*|--force")
_PARENTS = re.compile(r"-\w*p\w*|--parents")

_BEFORE_COMMANDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "time"}
    | {"exec", "command", "builtin", "nice", "xargs", "stdbuf", "esac", "eval", "timeout"}
)
_WITH_OPTIONS = frozenset({"nice", "xargs", "stdbuf", "timeout", "time", "exec", "command"})
_OPERATORS = frozenset({"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&", "<<<"})
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")

_LOOKING = frozenset(
    {"exists", "lexists", "isfile", "isdir", "is_file", "is_dir", "islink", "access", "stat"}
    | {"getsize", "getmtime", "touch", "unlink", "remove", "rmdir", "rename", "symlink", "link"}
    | {"mkdir", "makedirs", "connect", "basicConfig", "FileHandler", "Popen", "system", "popen"}
    | {"subprocess", "shelve", "dbm", "sqlite3", "open_group"}
)
"""Names of Python by which a program learns what is there, or may leave it as it is."""
_LISTING = frozenset(
    {"listdir", "scandir", "glob", "iglob", "rglob", "walk", "iterdir", "fwalk", "ImageFolder"}
)


@dataclass
class Told:
    """What is known of the programs of one run."""

    named: set[str] = field(default_factory=set)
    """Absolute paths that they are given, of things there and not there."""
    tested: set[str] = field(default_factory=set)
    """Paths of which it matters whether something is there."""
    forced: set[str] = field(default_factory=set)
    """Paths that are removed if they are there."""
    overwritten: set[str] = field(default_factory=set)
    """Absolute paths that are written over without a look."""
    careful: bool = False
    """One may look at what is there before it writes."""
    lists: bool = False
    """A Python program of theirs lists folders (imports do that as well)."""
    python: bool = False
    """One is a Python interpreter."""
    modules: set[str] = field(default_factory=set)
    """Modules that Python programs import, by their first names."""
    elsewhere: str = ""
    """Which one acts elsewhere, or depends on more than files; empty if none does."""
    _read: set[str] = field(default_factory=set)

    def argv(self, words: Sequence[str], folder: str, texts: Iterable[str] = ()) -> None:
        """A program was started with these words.

        Args:
            words: Its arguments, itself first.
            folder: Where it runs, absolute.
            texts: Scripts that it may be given through its standard input.
        """
        if words:
            self._command(list(words), folder, list(texts))

    def shell(self, text: str, folder: str) -> None:
        """A shell is given this text."""
        for words, inputs in _commands(text):
            if words and words[0] == "cd" and len(words) > 1:
                folder = _absolute(words[1], folder) or folder
            for inner in _SUBSTITUTION.findall(" ".join(words)):
                self.shell(inner, folder)
            self._command(words, folder, inputs)

    def python_code(self, text: str, folder: str) -> None:
        """A Python interpreter is given this text."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            self.careful = self.lists = True
            return
        content = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._name(node.value, folder, sure=False)
            elif isinstance(node, ast.Import):
                self._imports(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                self._imports([node.module or ""])
                self.words(alias.name for alias in node.names)
            elif isinstance(node, ast.Call):
                self.careful = self.careful or any(map(is_updating, modes_of(node)))
                if any(word.arg in ("exist_ok", "missing_ok") for word in node.keywords):
                    content.add(node.func)  # does the same whether or not something is there
            elif isinstance(node, ast.Attribute | ast.Name) and node not in content:
                self.words([node.attr if isinstance(node, ast.Attribute) else node.id])

    def script(self, path: str) -> None:
        """A script, or a module of the project, is run."""
        self._script(path, os.path.dirname(path))

    def words(self, names: Iterable[str]) -> None:
        """Python code that uses these names runs in a child."""
        for name in names:
            self.careful = self.careful or name in _LOOKING
            self.lists = self.lists or name in _LISTING

    # -- one command --------------------------------------------------------------------

    def _command(self, words: list[str], folder: str, texts: list[str]) -> None:
        while words and (words[0] in _BEFORE_COMMANDS or _is_assignment(words[0])):
            taking_options = words[0] in _WITH_OPTIONS
            words = words[1:]
            while taking_options and words and re.match(r"-|\d", words[0]):
                words = words[1:]
        words = list(self._redirections(words, folder))
        if not words:
            return
        program = os.path.basename(words[0])
        if program in ("for", "case", "select", "function"):
            self._names(words[1:], folder)
        elif program in _ELSEWHERE:
            self.elsewhere = self.elsewhere or program
        elif program in _SHELLS or program in ("source", "."):
            self._shell_program(words, folder, texts, sourced=program not in _SHELLS)
        elif _PYTHON.fullmatch(program):
            self._python_program(words, folder, texts)
        else:
            self._other(program, words, folder)

    def _redirections(self, words: list[str], folder: str) -> Iterator[str]:
        waiting = iter(words)
        for word in waiting:
            if word not in _OPERATORS:
                yield word
                continue
            name = next(waiting, "")
            target = _absolute(name, folder)
            if ">>" in word:
                self.careful = True
            elif target is None or target.startswith("/dev/") or (name.isdigit() and "&" in word):
                continue
            elif "<" in word:
                self.named.add(target)
            else:
                self.overwritten.add(target)

    def _shell_program(
        self, words: list[str], folder: str, texts: list[str], *, sourced: bool
    ) -> None:
        options = [word for word in words[1:] if word.startswith("-")]
        rest = [word for word in words[1:] if not word.startswith("-")]
        if not sourced and any("c" in option for option in options) and rest:
            self.shell(rest[0], folder)
        elif rest:
            self._script(rest[0], folder)
            self._names(rest[1:], folder)
        else:
            for text in texts:
                self.shell(text, folder)

    def _python_program(self, words: list[str], folder: str, texts: list[str]) -> None:
        self.python = True
        for at, word in enumerate(words[1:], 1):
            if word in ("-c", "-m"):
                what = words[at + 1] if at + 1 < len(words) else ""
                if word == "-c":
                    self.python_code(what, folder)
                elif what.partition(".")[0] in _ELSEWHERE | {"http", "venv", "ensurepip"}:
                    self.elsewhere = self.elsewhere or what
                else:
                    self._module(what, folder)
                self._names(words[at + 2 :], folder)
                return
            if not word.startswith("-"):
                self._script(word, folder)
                self._names(words[at + 1 :], folder)
                return
        for text in texts:
            self.python_code(text, folder)

    def _module(self, name: str, folder: str) -> None:
        """`python -m name`: a module of the project, or one of which nothing is known."""
        base = os.path.join(folder, *name.split("."))
        found = [p for p in (f"{base}.py", os.path.join(base, "__main__.py")) if os.path.isfile(p)]
        for path in found:
            self._script(path, folder)
        self.careful = self.careful or not found

    def _other(self, program: str, words: list[str], folder: str) -> None:
        options = {word for word in words[1:] if word.startswith("-")}
        if program == "mkdir" and any(map(_PARENTS.fullmatch, options)):
            made = (_absolute(word, folder) for word in words[1:])
            for place in filter(None, made):
                places = (place, *map(str, PurePath(place).parents))
                self.overwritten.update(takewhile(lambda p: not os.path.lexists(p), places))
            return
        if program in _TESTS or program in _DEPENDING:
            words = [word for word in words[1:] if not word.startswith("-") and word not in _SIGNS]
            paths = [_absolute(word, folder) for word in words]
            self.tested.update(path for path in paths if path is not None)
            self.careful = self.careful or None in paths
            return
        if os.sep in words[0] and not words[0].startswith(("/bin/", "/usr/")):
            self._script(words[0], folder)
            self._names(words[1:], folder)
            return
        known = program in _KNOWN and options.isdisjoint(_CAREFUL_OPTIONS.get(program, ()))
        self.careful = self.careful or not known
        arguments = [word for word in words[1:] if not word.startswith("-") or "=" in word]
        if program == "rm" and any(map(_FORCED.fullmatch, options)):
            # What else is in a folder is gone with it: that there is none then counts.
            deep = any(map(_RECURSIVE.fullmatch, options))
            gone = (path for word in arguments if (path := _absolute(word, folder)))
            (self.tested if deep else self.forced).update(gone)
        elif program in ("cp", "mv", "tee") and known:
            self._copy(program, arguments, folder)
        elif program not in _SPEAKING:
            self._names(arguments, folder)

    def _copy(self, program: str, arguments: list[str], folder: str) -> None:
        if program != "tee" and arguments:
            *sources, last = arguments
            self._names(sources, folder)
            target = _absolute(last, folder)
            if target is not None and os.path.isdir(target):
                arguments = [os.path.join(target, os.path.basename(word)) for word in sources]
            else:
                arguments = [last]
        self.overwritten.update(p for word in arguments if (p := _absolute(word, folder)))

    # -- what it names ------------------------------------------------------------------

    def _script(self, word: str, folder: str) -> None:
        path = _absolute(word, folder)
        if path is None or path in self._read:
            return
        self._read.add(path)
        self.named.add(path)
        text = _text_of(path)
        first = (text or "").partition("\n")[0]
        if text is None:
            self.careful = True
        elif path.endswith(".py") or (first.startswith("#!") and "python" in first):
            self.python = True
            self.python_code(text, folder)
        elif path.endswith((".sh", ".bash")) or (first.startswith("#!") and "sh" in first):
            self.shell(text, folder)
        else:
            self.careful = True

    def _imports(self, modules: Iterable[str]) -> None:
        for module in modules:
            top = module.partition(".")[0]
            self.modules.add(top)
            if top in _WORLD:
                self.elsewhere = self.elsewhere or f"Python with {top}"
            self.careful = self.careful or top in _LOOKING
            self.lists = self.lists or module in _LISTING

    def _names(self, words: Iterable[str], folder: str) -> None:
        for word in words:
            # `--data=x.csv`, `if=x.bin`
            self._name(word.rpartition("=")[2] if "=" in word else word, folder)

    def _name(self, word: str, folder: str, *, sure: bool = True) -> None:
        path = _absolute(word, folder)
        if path is None:
            return
        if os.path.lexists(path) or (sure and looks_like_path(word)):
            self.named.add(path)


def looks_like_path(word: str) -> bool:
    """Whether a word that names nothing may be the path of something to come."""
    return os.sep in word or bool(re.fullmatch(r"[\w.+-]*\w\.[A-Za-z]\w{0,9}", word))


def _absolute(word: str, folder: str) -> str | None:
    """The path that a word names; None if that cannot be told."""
    if not word or len(word) > 1024 or any(c in word for c in "*?[]{}\n\0`|;&<>"):
        return None
    word = os.path.expanduser(os.path.expandvars(word))
    if "$" in word or word.startswith("-") or "://" in word:
        return None
    return os.path.normpath(os.path.join(folder, word))


def _is_assignment(word: str) -> bool:
    return bool(re.match(r"[A-Za-z_]\w*\+?=", word))


def _text_of(path: str) -> str | None:
    try:
        if os.path.getsize(path) > _LONGEST_SCRIPT:
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The simple commands of a shell text, as words and the texts they are given as input."""
    text = text.replace("\\\n", " ").replace("`", " ; ")
    lines = iter(text.split("\n"))
    for line in lines:
        inputs = []
        for mark in _HEREDOC.findall(line):
            body = []
            for inner in lines:
                if inner.strip() == mark[1]:
                    break
                body.append(inner)
            inputs.append("\n".join(body))
        line = _HEREDOC.sub(" ", line)
        while True:  # a quotation may go on in the next lines
            try:
                words = _words(line)
                break
            except ValueError:
                following = next(lines, None)
                if following is None:
                    words = line.split()
                    break
                line = f"{line}\n{following}"
        command: list[str] = []
        for word in words:
            if word and word not in _OPERATORS and set(word) <= set("();|&"):
                yield command, inputs
                command = []
            else:
                command.append(word)
        yield command, inputs


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:comment]

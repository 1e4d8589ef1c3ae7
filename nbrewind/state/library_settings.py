"""Option tables of numpy, pandas, matplotlib, scikit-learn and torch.

No library is imported here: a table becomes active when the notebook imports its
owner. Start values are those right after the import.
"""

from __future__ import annotations

import sys
from typing import Any

from nbrewind.state.settings import Setting, Table


class NumpyOptions(Setting):
    """numpy's print options and how it treats floating-point errors."""

    name = "numpy.options"
    library = "numpy"
    module = "numpy"
    mentions = frozenset(
        {"get_printoptions", "set_printoptions", "printoptions", "geterr", "seterr", "errstate"}
        | {"seterrcall", "geterrcall", "setbufsize", "getbufsize"}
    )

    def read(self) -> Table:
        """Print options as `print.*`, error treatment as `err.*`."""
        numpy = sys.modules["numpy"]
        table = {f"print.{key}": _frozen(v) for key, v in numpy.get_printoptions().items()}
        table.update({f"err.{key}": value for key, value in numpy.geterr().items()})
        table["errcall"] = numpy.geterrcall()
        return table

    def write(self, values: Table) -> None:
        """Set all of them."""
        numpy = sys.modules["numpy"]
        printing = {k[6:]: _thawed(v) for k, v in values.items() if k.startswith("print.")}
        if printing.get("formatter") is None:
            printing["formatter"] = None
        numpy.set_printoptions(**printing)
        numpy.seterr(**{k[4:]: v for k, v in values.items() if k.startswith("err.")})
        numpy.seterrcall(values["errcall"])


class PandasOptions(Setting):
    """`pandas.options`."""

    name = "pandas.options"
    library = "pandas"
    module = "pandas"
    mentions = frozenset(
        {"options", "get_option", "set_option", "reset_option", "option_context"}
        | {"describe_option", "set_eng_float_format"}
    )

    def read(self) -> Table:
        """Dotted option names to values."""
        table: Table = {}
        # The public way asks about deprecation for each option: 100 times slower.
        _flatten(sys.modules["pandas._config.config"]._global_config, "", table)
        return table

    def write(self, values: Table) -> None:
        """Set the options that differ, with pandas' own checks and callbacks."""
        pandas = sys.modules["pandas"]
        now = self.read()
        for key, value in values.items():
            if key in now and now[key] != value:
                pandas.set_option(key, _thawed(value))


class MatplotlibParameters(Setting):
    """`matplotlib.rcParams`."""

    name = "matplotlib.rcParams"
    library = "matplotlib"
    module = "matplotlib"
    mentions = frozenset(
        {"rcParams", "rcParamsDefault", "rc", "rcdefaults", "rc_context", "get_backend"}
    )

    def __init__(self) -> None:
        super().__init__()
        self._backend_is_automatic = False

    def mark(self) -> None:
        """As for every setting; notes whether the backend is yet to be chosen."""
        rc = sys.modules["matplotlib"].rcParams
        self._backend_is_automatic = not isinstance(dict.__getitem__(rc, "backend"), str)
        super().mark()

    def read(self) -> Table:
        """Parameter names to values, without an automatically chosen backend.

        What `auto` turns into when the first figure is made is no act of the notebook;
        `matplotlib.use` is, and forbids falling back.
        """
        rc = sys.modules["matplotlib"].rcParams
        # `dict.items` passes by the accessors, which warn and which choose a backend.
        table = {k: tuple(v) if type(v) is list else v for k, v in dict.items(rc)}
        if self._backend_is_automatic and table["backend_fallback"]:
            del table["backend"]
        return table

    def write(self, values: Table) -> None:
        """Set the parameters that differ, checked by matplotlib."""
        matplotlib = sys.modules["matplotlib"]
        now = self.read()
        differing = {k: v for k, v in values.items() if k not in now or now[k] != v}
        backend = differing.pop("backend", None)
        if backend is not None:
            matplotlib.use(backend, force=False)  # forbids falling back, so this goes first
            differing["backend_fallback"] = values["backend_fallback"]
        for key, value in differing.items():
            matplotlib.rcParams[key] = _thawed(value)


class SklearnConfiguration(Setting):
    """scikit-learn's global configuration of this thread."""

    name = "sklearn.config"
    library = "sklearn"
    module = "sklearn"
    mentions = frozenset({"get_config", "set_config", "config_context"})

    def read(self) -> Table:
        """What `sklearn.get_config` returns."""
        table: Table = sys.modules["sklearn"].get_config()
        return table

    def write(self, values: Table) -> None:
        """Set all of it."""
        sys.modules["sklearn"].set_config(**values)


class TorchSettings(Setting):
    """torch's default dtype and device, grad mode, determinism and precision switches."""

    name = "torch.settings"
    library = "torch"
    module = "torch"
    mentions = frozenset(
        {"get_default_dtype", "set_default_dtype", "get_default_device", "set_default_device"}
        | {"is_grad_enabled", "set_grad_enabled", "use_deterministic_algorithms"}
        | {"are_deterministic_algorithms_enabled", "deterministic", "benchmark", "allow_tf32"}
        | {"set_float32_matmul_precision", "get_float32_matmul_precision", "set_printoptions"}
        | {"get_num_threads", "set_num_threads"}
    )

    def read(self) -> Table:
        """Plain values; dtype and device by name."""
        torch = sys.modules["torch"]
        cudnn = torch.backends.cudnn
        printing = torch._tensor_str.PRINT_OPTS
        return {
            "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            "device": str(torch.get_default_device()),
            "grad": torch.is_grad_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
            "precision": torch.get_float32_matmul_precision(),
            "cudnn.deterministic": cudnn.deterministic,
            "cudnn.benchmark": cudnn.benchmark,
            "cudnn.enabled": cudnn.enabled,
            "threads": torch.get_num_threads(),
            "print": tuple(sorted(vars(printing).items())),
        }

    def write(self, values: Table) -> None:
        """Set what differs: switching the default device on at all slows torch down."""
        torch = sys.modules["torch"]
        now = self.read()
        torch.set_default_dtype(getattr(torch, values["dtype"]))
        torch.set_grad_enabled(values["grad"])
        torch.use_deterministic_algorithms(values["deterministic"], warn_only=values["warn_only"])
        if now["device"] != values["device"]:
            chosen = values["device"]
            torch.set_default_device(None if chosen == self._start["device"] else chosen)
        if now["precision"] != values["precision"]:
            torch.set_float32_matmul_precision(values["precision"])
        for field in ("deterministic", "benchmark", "enabled"):
            if now[f"cudnn.{field}"] != values[f"cudnn.{field}"]:
                setattr(torch.backends.cudnn, field, values[f"cudnn.{field}"])
        if now["threads"] != values["threads"]:
            torch.set_num_threads(values["threads"])
        vars(torch._tensor_str.PRINT_OPTS).update(values["print"])


def library_settings() -> list[Setting]:
    """The option tables of libraries this package knows."""
    return [
        NumpyOptions(),
        PandasOptions(),
        MatplotlibParameters(),
        SklearnConfiguration(),
        TorchSettings(),
    ]


def _flatten(tree: dict[str, Any], prefix: str, table: Table) -> None:
    for key, value in tree.items():
        if type(value) is dict:
            _flatten(value, f"{prefix}{key}.", table)
        else:
            table[prefix + key] = tuple(value) if type(value) is list else value


def _frozen(value: Any) -> Any:
    """Options that may be changed in place, copied."""
    return dict(value) if isinstance(value, dict) else value


def _thawed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

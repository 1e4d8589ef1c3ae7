"""The audit and replay kernels, the engine behind them, and the headless driver."""

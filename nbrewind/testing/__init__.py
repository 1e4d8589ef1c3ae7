"""What tests of NBRewind and of code built on it use; part of the package on purpose."""

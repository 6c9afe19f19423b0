"""Faults of our own, as they may be logged: an exception's text could quote the request, its class and place do not."""

from __future__ import annotations


def without_text(error: BaseException) -> str:
    """`ValueError in drsr.proxy.decider, line 120`"""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f" in {trace.tb_frame.f_globals.get('__name__', '?')}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}"

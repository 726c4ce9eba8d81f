"""Fetching ahead: rows read in no order are asked for before they are needed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_READ, _KEEP, _DATA = 0, 3, 1
"""What for, how long, and into which cache."""


def _fetch(typing: Any, table: Any, row: Any) -> Any:
    """Ask for the beginning of a row of an array, for compiled code; changes no result."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = context.cast(builder, args[1], signature.args[1], types.intp)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        first = builder.bitcast(array.data, byte)
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        at = builder.gep(first, [builder.mul(place, stride)])
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [at, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(table, row), generate


prefetch = intrinsic(_fetch)

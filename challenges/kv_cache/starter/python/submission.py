"""KV cache.

A cache of keys and values for autoregressive decoding: ragged batches, several layers, grouped
queries, and attention that gives the same answer however the tokens came in.

Arrays are numpy arrays, row-major. Do not write to an argument, nor to what you returned before. Raise an exception to refuse an input.
"""

import numpy as np


def create(layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks):
    """An empty cache for `batch` sequences, each of no tokens. A configuration that cannot be served
    is refused: heads no multiple of kv_heads, a number of bits that is not claimed.

    layers: int; layers, each with keys and values of its own
    batch: int; sequences
    heads: int; query heads, a multiple of kv_heads
    kv_heads: int; heads of keys and values
    head_dim: int; elements of a head; even
    max_len: int; tokens that a sequence can have at most
    bits: int; of a stored number: 32 for float32; with the capability, 16 for float16, 8 and 4 for integers
    block_size: int; tokens of a block of a paged cache (capability `paged`), or 0: not paged
    num_blocks: int; blocks for all sequences together, each for block_size tokens of one sequence in every layer; 0 if not paged

    Returns (cache):
    cache: any object; the cache
    """
    raise NotImplementedError


def append(cache, layer, k, v, lengths):
    """Adds new tokens to one layer: of sequence b the first lengths[b] along the t axis; what stands
    behind them is padding, and means nothing. Each layer is appended to on its own, and layers may
    differ in length in between. If a sequence would have more than max_len tokens, or blocks do not
    suffice, the call is refused and the cache is as it was, all sequences of it.

    cache: any object; from create; changed in place
    layer: int; which layer, from 0
    k: array (batch, kv_heads, t, head_dim); keys, float32
    v: array (batch, kv_heads, t, head_dim); values, float32
    lengths: array (batch,); int64, 0 … t new tokens

    Returns nothing.
    """
    raise NotImplementedError


def attend(cache, layer, q, lengths):
    """Causal attention of each sequence's newest lengths[b] tokens, appended before, over what the
    layer holds of that sequence: out = softmax(q k' / sqrt(head_dim)) v, where the query at
    position p sees keys at positions up to p. Query head h uses the keys of head h / (heads /
    kv_heads), rounded down. Queries stand at the left of the t axis; out is not looked at behind
    them.

    cache: any object; from create; changed in place
    layer: int; which layer, from 0
    q: array (batch, heads, t, head_dim); queries, float32
    lengths: array (batch,); int64, 0 … t queries

    Returns (out):
    out: array (batch, heads, t, head_dim); float32
    """
    raise NotImplementedError


def lengths(cache):
    """How many tokens each layer holds of each sequence.

    cache: any object; from create; changed in place

    Returns (lengths):
    lengths: array (layers, batch); int64
    """
    raise NotImplementedError


def clear(cache, sequence):
    """Empties one sequence in every layer; its place and its blocks can be used again.

    cache: any object; from create; changed in place
    sequence: int; which, from 0

    Returns nothing.
    """
    raise NotImplementedError


def fork(cache, source, target):
    """Gives an empty sequence the tokens of another, in every layer; from then on they go their own
    ways. In a paged cache they share the blocks that are full, which count once; one that is not
    may be copied at once, or when either appends to it. Called only where `prefix_sharing` is
    claimed.

    cache: any object; from create; changed in place
    source: int; the sequence that has tokens
    target: int; an empty one

    Returns nothing.
    """
    raise NotImplementedError


def nbytes(cache):
    """Bytes of memory that the cache takes as it stands, for keys, values and what belongs to them:
    scales, tables, empty blocks, copies. Room for tokens that have not come may be counted or not.
    A full cache that is weighed from outside must not take more than 1.5 times what it says: the
    rest is for allocators and for what a language puts before an object.

    cache: any object; from create; changed in place

    Returns (bytes):
    bytes: array (); int64
    """
    raise NotImplementedError

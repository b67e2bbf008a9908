/* KV cache: the contract in C. Generated; `tribunal challenges kv_cache` explains it.
 *
 * Every operation takes one record and returns 0, or anything else to refuse, with a text at `message` (256
 * bytes, closing zero included). Tensors lie in main memory, row-major and contiguous, strides given,
 * byte_offset 0, starting at a multiple of 256 bytes. Outputs are allocated by the caller; write every
 * element. Inputs are not to be written to. They are gone when the call returns, unless the call makes a
 * state and sets `keeps_inputs` to 1: then they stay valid and unchanged until tribunal_release, and count as
 * memory that the state keeps. Calls come one at a time, from one thread; you may use threads inside.
 */
#ifndef TRIBUNAL_H
#define TRIBUNAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRIBUNAL_ABI 1
#define TRIBUNAL_MESSAGE_BYTES 256

/* DLPack's tensor, as in dlpack.h; include that first and it is used instead. */
#ifndef DLPACK_DLPACK_H_
typedef struct {
    int32_t device_type;  /* 1: main memory */
    int32_t device_id;
} DLDevice;
typedef struct {
    uint8_t code;  /* 0 integer, 2 float, 4 bfloat */
    uint8_t bits;
    uint16_t lanes;
} DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;    /* ndim of them */
    int64_t *strides;  /* in elements, ndim of them */
    uint64_t byte_offset;
} DLTensor;
#endif

/*
 * An empty cache for `batch` sequences, each of no tokens. A configuration that cannot be served is refused:
 * heads no multiple of kv_heads, a number of bits that is not claimed.
 */
typedef struct {
    int64_t layers;  /* layers, each with keys and values of its own */
    int64_t batch;  /* sequences */
    int64_t heads;  /* query heads, a multiple of kv_heads */
    int64_t kv_heads;  /* heads of keys and values */
    int64_t head_dim;  /* elements of a head; even */
    int64_t max_len;  /* tokens that a sequence can have at most */
    int64_t bits;  /* of a stored number: 32 for float32; with the capability, 16 for float16, 8 and 4 for integers */
    int64_t block_size;  /* tokens of a block of a paged cache (capability `paged`), or 0: not paged */
    int64_t num_blocks;  /* blocks for all sequences together, each for block_size tokens of one sequence in every layer; 0 if not paged */
    void *cache;  /* out: the cache */
    int64_t keeps_inputs;  /* out: 1 if the state refers to the inputs */
    char *message;  /* out: why the call was refused */
} tribunal_create_args;
int32_t tribunal_create(tribunal_create_args *args);

/*
 * Adds new tokens to one layer: of sequence b the first lengths[b] along the t axis; what stands behind them
 * is padding, and means nothing. Each layer is appended to on its own, and layers may differ in length in
 * between. If a sequence would have more than max_len tokens, or blocks do not suffice, the call is refused
 * and the cache is as it was, all sequences of it.
 */
typedef struct {
    void *cache;  /* from create; changed in place */
    int64_t layer;  /* which layer, from 0 */
    const DLTensor *k;  /* (batch, kv_heads, t, head_dim): keys, float32 */
    const DLTensor *v;  /* (batch, kv_heads, t, head_dim): values, float32 */
    const DLTensor *lengths;  /* (batch,): int64, 0 … t new tokens */
    char *message;  /* out: why the call was refused */
} tribunal_append_args;
int32_t tribunal_append(tribunal_append_args *args);

/*
 * Causal attention of each sequence's newest lengths[b] tokens, appended before, over what the layer holds of
 * that sequence: out = softmax(q k' / sqrt(head_dim)) v, where the query at position p sees keys at positions
 * up to p. Query head h uses the keys of head h / (heads / kv_heads), rounded down. Queries stand at the left
 * of the t axis; out is not looked at behind them.
 */
typedef struct {
    void *cache;  /* from create; changed in place */
    int64_t layer;  /* which layer, from 0 */
    const DLTensor *q;  /* (batch, heads, t, head_dim): queries, float32 */
    const DLTensor *lengths;  /* (batch,): int64, 0 … t queries */
    DLTensor *out;  /* (batch, heads, t, head_dim): float32 */
    char *message;  /* out: why the call was refused */
} tribunal_attend_args;
int32_t tribunal_attend(tribunal_attend_args *args);

/*
 * How many tokens each layer holds of each sequence.
 */
typedef struct {
    void *cache;  /* from create; changed in place */
    DLTensor *lengths;  /* (layers, batch): int64 */
    char *message;  /* out: why the call was refused */
} tribunal_lengths_args;
int32_t tribunal_lengths(tribunal_lengths_args *args);

/*
 * Empties one sequence in every layer; its place and its blocks can be used again.
 */
typedef struct {
    void *cache;  /* from create; changed in place */
    int64_t sequence;  /* which, from 0 */
    char *message;  /* out: why the call was refused */
} tribunal_clear_args;
int32_t tribunal_clear(tribunal_clear_args *args);

/*
 * Gives an empty sequence the tokens of another, in every layer; from then on they go their own ways. In a
 * paged cache they share the blocks that are full, which count once; one that is not may be copied at once,
 * or when either appends to it. Called only where `prefix_sharing` is claimed.
 */
typedef struct {
    void *cache;  /* from create; changed in place */
    int64_t source;  /* the sequence that has tokens */
    int64_t target;  /* an empty one */
    char *message;  /* out: why the call was refused */
} tribunal_fork_args;
int32_t tribunal_fork(tribunal_fork_args *args);

/*
 * Bytes of memory that the cache takes as it stands, for keys, values and what belongs to them: scales,
 * tables, empty blocks, copies. Room for tokens that have not come may be counted or not. A full cache that
 * is weighed from outside must not take more than 1.5 times what it says: the rest is for allocators and for
 * what a language puts before an object.
 */
typedef struct {
    void *cache;  /* from create; changed in place */
    DLTensor *bytes;  /* (): int64 */
    char *message;  /* out: why the call was refused */
} tribunal_nbytes_args;
int32_t tribunal_nbytes(tribunal_nbytes_args *args);

/* Frees a state. Called once for each state that was made. */
void tribunal_release(void *state);

#ifdef __cplusplus
}
#endif

#endif

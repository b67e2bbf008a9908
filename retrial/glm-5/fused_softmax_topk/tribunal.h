/* Fused softmax and top-k: the contract in C. Generated; `tribunal challenges fused_softmax_topk` explains it.
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
 * For each row of V logits: probs = exp(logits[i] - lse) of the k entries i that are most probable, in
 * descending order, with lse = log(sum(exp(logits))) over all V; indices are these i. Entries whose
 * probabilities float32 cannot tell apart may stand in any order, and any of them may be left out for
 * another. A logit of -inf has probability 0; it is named, once, only where fewer than k others exist. Rows
 * have nothing to do with each other. A row that has no softmax (a NaN in it, or nothing but -inf) is
 * refused, or its probs are NaN, or zeros, or, for nothing but -inf, 1 / V, its indices any of the row or -1,
 * and the rows beside it are answered as ever. A k beyond V is refused, or what is beyond V gets probability
 * 0 and index -1.
 */
typedef struct {
    const DLTensor *logits;  /* (B, T, V): natural logarithms of unnormalised probabilities; +inf does not occur */
    int64_t k;  /* how many entries of each row, at least 1 */
    DLTensor *probs;  /* (B, T, k): float32 whatever the dtype of the logits, descending */
    DLTensor *indices;  /* (B, T, k): int64 (Python may return int32), 0 <= index < V, distinct within a row */
    char *message;  /* out: why the call was refused */
} tribunal_softmax_topk_args;
int32_t tribunal_softmax_topk(tribunal_softmax_topk_args *args);

#ifdef __cplusplus
}
#endif

#endif

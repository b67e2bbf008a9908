/* Layer norm, backward: the contract in C. Generated; `tribunal challenges layer_norm_backward` explains it.
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
 * y = gamma * (x - mean) * rstd + beta, with rstd = 1 / sqrt(var + eps); mean and the biased variance
 * (divided by D) are taken over the last axis.
 */
typedef struct {
    const DLTensor *x;  /* (B, T, D) or (rows, D): input */
    const DLTensor *gamma;  /* (D,): scale, of x's dtype */
    const DLTensor *beta;  /* (D,): shift, of x's dtype */
    double eps;  /* added to the variance, inside the root */
    DLTensor *y;  /* (B, T, D) or (rows, D): shape and dtype of x */
    void *cache;  /* out: what backward needs, and no more */
    int64_t keeps_inputs;  /* out: 1 if the state refers to the inputs */
    char *message;  /* out: why the call was refused */
} tribunal_forward_args;
int32_t tribunal_forward(tribunal_forward_args *args);

/*
 * The gradients of sum(dy * y) with respect to x, gamma and beta, where y is what the forward call that made
 * the cache returned. Other forward calls may have been made since, and one cache may be used more than once.
 */
typedef struct {
    const DLTensor *dy;  /* (B, T, D) or (rows, D): gradient with respect to y */
    void *cache;  /* from forward */
    DLTensor *dx;  /* (B, T, D) or (rows, D): shape and dtype of x */
    DLTensor *dgamma;  /* (D,): shape and dtype of gamma */
    DLTensor *dbeta;  /* (D,): shape and dtype of beta */
    char *message;  /* out: why the call was refused */
} tribunal_backward_args;
int32_t tribunal_backward(tribunal_backward_args *args);

/* Frees a state. Called once for each state that was made. */
void tribunal_release(void *state);

#ifdef __cplusplus
}
#endif

#endif

// KV cache: A cache of keys and values for autoregressive decoding: ragged batches, several layers, grouped queries, and attention that gives the same answer however the tokens came in.
// Device code only: the manifest says with which grid and which arguments each kernel is launched. Tensors
// lie in device memory, row-major. Inputs are not to be written to; write every element of the outputs.

// An empty cache for `batch` sequences, each of no tokens. A configuration that cannot be served is refused:
// heads no multiple of kv_heads, a number of bits that is not claimed.
extern "C" __global__ void create(int batch, int bits, int block_size, int head_dim, int heads, int kv_heads, int layers, int max_len, int num_blocks, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

// Adds new tokens to one layer: of sequence b the first lengths[b] along the t axis; what stands behind them
// is padding, and means nothing. Each layer is appended to on its own, and layers may differ in length in
// between. If a sequence would have more than max_len tokens, or blocks do not suffice, the call is refused
// and the cache is as it was, all sequences of it.
extern "C" __global__ void append(const float *k, const float *v, const long long *lengths, int batch, int head_dim, int kv_heads, int layer, int rows, int t, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

// Causal attention of each sequence's newest lengths[b] tokens, appended before, over what the layer holds of
// that sequence: out = softmax(q k' / sqrt(head_dim)) v, where the query at position p sees keys at positions
// up to p. Query head h uses the keys of head h / (heads / kv_heads), rounded down. Queries stand at the left
// of the t axis; out is not looked at behind them.
extern "C" __global__ void attend(const float *q, const long long *lengths, float *out, int batch, int head_dim, int heads, int layer, int rows, int t, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

// How many tokens each layer holds of each sequence.
extern "C" __global__ void lengths(long long *lengths, int batch, int layers, int rows, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

// Empties one sequence in every layer; its place and its blocks can be used again.
extern "C" __global__ void clear(int sequence, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

// Gives an empty sequence the tokens of another, in every layer; from then on they go their own ways. In a
// paged cache they share the blocks that are full, which count once; one that is not may be copied at once,
// or when either appends to it. Called only where `prefix_sharing` is claimed.
extern "C" __global__ void fork(int source, int target, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

// Bytes of memory that the cache takes as it stands, for keys, values and what belongs to them: scales,
// tables, empty blocks, copies. Room for tokens that have not come may be counted or not. A full cache that
// is weighed from outside must not take more than 1.5 times what it says: the rest is for allocators and for
// what a language puts before an object.
extern "C" __global__ void nbytes(long long *bytes, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

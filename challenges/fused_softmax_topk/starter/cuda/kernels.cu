// Fused softmax and top-k: The k largest probabilities of a softmax over a large vocabulary, and where they are, without ever storing the probabilities of a whole row.
// Device code only: the manifest says with which grid and which arguments each kernel is launched. Tensors
// lie in device memory, row-major. Inputs are not to be written to; write every element of the outputs.

// For each row of V logits: probs = exp(logits[i] - lse) of the k entries i that are most probable, in
// descending order, with lse = log(sum(exp(logits))) over all V; indices are these i. Entries whose
// probabilities float32 cannot tell apart may stand in any order, and any of them may be left out for
// another. A logit of -inf has probability 0; it is named, once, only where fewer than k others exist. Rows
// have nothing to do with each other. A row that has no softmax (a NaN in it, or nothing but -inf) is
// refused, or its probs are NaN, or zeros, or, for nothing but -inf, 1 / V, its indices any of the row or -1,
// and the rows beside it are answered as ever. A k beyond V is refused, or what is beyond V gets probability
// 0 and index -1.
extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, int B, int T, int V, int k, int rows, int *status) {
    // Not written yet: a status that is not zero refuses the call.
    if (blockIdx.x == 0 && threadIdx.x == 0) *status = 1;
}

/* One row through forward and backward, against the definition. Prints what failed, and ends with the number of failures. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>

enum { D = 6 };

static int failures;

static void check(const char *what, double actual, double expected) {
    if (!(fabs(actual - expected) <= 1e-9)) {
        printf("%s: %.17g, should be %.17g\n", what, actual, expected);
        failures++;
    }
}

static int64_t row_shape[2] = {1, D}, row_strides[2] = {D, 1}, column_shape[1] = {D}, column_strides[1] = {1};

static DLTensor row(double *data) {
    DLTensor t = {data, {1, 0}, 2, {2, 64, 1}, row_shape, row_strides, 0};
    return t;
}

static DLTensor column(double *data) {
    DLTensor t = {data, {1, 0}, 1, {2, 64, 1}, column_shape, column_strides, 0};
    return t;
}

int main(void) {
    _Alignas(256) double x[D] = {0.5, -1, 2, 3.5, -0.25, 1}, gamma[D], beta[D], y[D];
    _Alignas(256) double dy[D] = {1, 0, -2, 0.5, 0, 3}, dx[D], dgamma[D], dbeta[D];
    double eps = 0.01, mean = 0, variance = 0, g_mean = 0, projection = 0;
    char message[TRIBUNAL_MESSAGE_BYTES];
    for (int i = 0; i < D; i++) gamma[i] = 1, beta[i] = 0, mean += x[i] / D;
    for (int i = 0; i < D; i++) variance += (x[i] - mean) * (x[i] - mean) / D;
    double rstd = 1 / sqrt(variance + eps);
    for (int i = 0; i < D; i++) g_mean += dy[i] / D, projection += dy[i] * (x[i] - mean) * rstd / D;

    DLTensor tx = row(x), tgamma = column(gamma), tbeta = column(beta), ty = row(y);
    DLTensor tdy = row(dy), tdx = row(dx), tdgamma = column(dgamma), tdbeta = column(dbeta);
    tribunal_forward_args forward = {0};
    forward.x = &tx, forward.gamma = &tgamma, forward.beta = &tbeta, forward.eps = eps, forward.y = &ty;
    forward.message = message;
    check("status of forward", tribunal_forward(&forward), 0);
    if (failures) return failures;
    for (int i = 0; i < D; i++) check("y", y[i], (x[i] - mean) * rstd);

    tribunal_backward_args backward = {0};
    backward.dy = &tdy, backward.cache = forward.cache;
    backward.dx = &tdx, backward.dgamma = &tdgamma, backward.dbeta = &tdbeta, backward.message = message;
    check("status of backward", tribunal_backward(&backward), 0);
    for (int i = 0; i < D; i++) {
        double xhat = (x[i] - mean) * rstd;
        check("dx", dx[i], rstd * (dy[i] - g_mean - xhat * projection));
        check("dgamma", dgamma[i], dy[i] * xhat);
        check("dbeta", dbeta[i], dy[i]);
    }
    tribunal_release(forward.cache);
    return failures;
}

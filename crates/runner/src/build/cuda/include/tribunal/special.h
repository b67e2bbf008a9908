// Error function, normal distribution and gamma function of double.
//
// Largest errors in units in the last place, as measured against 113 bits: 1.5 for erf; 2.3 for erfcx; 2.4 for lgamma of positive numbers (of negative
// ones it is that of its terms, 1e-15, which is much where it is near zero); 3.7 for erfc, erfinv; 3.9 for erfcinv; 4.2 for normcdf, normcdfinv; 6
// for tgamma. There are no Bessel functions.
#pragma once

// erf(x) for |x| <= 3/4.
TRIBUNAL_DEVICE double tribunal_erf_near(double x) {
    double z = x * x;
    return x + x * tribunal_polynomial(
                       z, 0.1283791670955126, -0.37612638903183715, 0.11283791670952596, -0.026866170644428485,
                       0.005223977615420539, -0.0008548326188759752, 0.00012055289567541706, -1.4924196305569603e-05,
                       1.6430684179741352e-06, -1.5940066854660156e-07, 1.1472499701089409e-08);
}

// exp(x^2) erfc(x) for x >= 1/2: times 1 + 2 x it is smooth in (x - 4) / (x + 4).
TRIBUNAL_DEVICE double tribunal_erfcx(double x) {
    double t = 1.0 - 8.0 / (x + 4.0);
    return 0.5 *
           tribunal_polynomial(
               t, 1.2329951186255526, -0.1396211168405625, 0.015379652102610162, 0.0680970542546862, -0.10103906603585294,
               0.09373283499865172, -0.06633036582050367, 0.0371675155318432, -0.01619773397992426, 0.005031970032548695,
               -0.0007577737141838885, -0.00019925700412184815, 0.0001506231178516207, -2.439811794207995e-05,
               -1.1225140354449658e-05, 5.707239573693257e-06, 2.980596055322769e-07, -8.218020654813044e-07,
               7.111912428010423e-08, 1.0683442926744586e-07, -1.6357383982124768e-08, -1.2544825403855518e-08,
               1.5712153638319064e-09, 9.655408225482863e-10) /
           (x + 0.5);
}

// exp(sign (x + low)^2)
TRIBUNAL_DEVICE double tribunal_exp_square(double x, double low, double sign) {
    double square = __dmul_rn(x, x), rest = fma(x, x, -square) + 2.0 * x * low;
    return tribunal_exp_sum(sign * square, sign * rest);
}

// erfc(x + low)
TRIBUNAL_DEVICE double tribunal_erfc(double x, double low) {
    double a = fmin(fabs(x), 30.0);
    if (x != x) return x;
    if (a < 0.5) return 1.0 - tribunal_erf_near(x);
    double tail = tribunal_exp_square(a, x < 0.0 ? -low : low, -1.0) * tribunal_erfcx(a);
    return x < 0.0 ? 2.0 - tail : tail;
}
TRIBUNAL_DEVICE double erfc(double x) { return tribunal_erfc(x, 0.0); }
TRIBUNAL_DEVICE double erf(double x) {
    double a = fabs(x);
    return x == 0.0 ? x : a < 0.75 ? tribunal_erf_near(x) : copysign(1.0 - tribunal_erfc(a, 0.0), x);
}
TRIBUNAL_DEVICE double erfcx(double x) {
    if (x >= 0.5) return tribunal_erfcx(x);
    if (x > -0.5) return exp(x * x) * (1.0 - tribunal_erf_near(x));
    double a = fmin(-x, 30.0);
    return x != x ? x : 2.0 * tribunal_exp_square(a, 0.0, 1.0) - tribunal_erfcx(a);
}
TRIBUNAL_DEVICE double normcdf(double x) {
    double r = __dmul_rn(x, -0.7071067811865476);
    double low = fabs(x) < 64.0 ? fma(x, -0.7071067811865476, -r) + x * 4.833646656726457e-17 : 0.0;
    return 0.5 * tribunal_erfc(r, low);
}

// x with erfc(x) = y for y from 0 to 1/2, by Newton's steps for its logarithm, which is almost a parabola.
TRIBUNAL_APART double tribunal_erfcinv(double y) {
    if (!(y > 0.0)) return y == 0.0 ? __builtin_inf() : __builtin_nan("");
    double l = log(y), x = sqrt(-l);
    for (int i = 0; i < 5; i++) {
        double e = tribunal_erfcx(x);
        x = fma(fma(-x, x, log(e) - l), e * 0.886226925452758, x);
    }
    return x;
}
TRIBUNAL_APART double erfinv(double y) {
    if (!(fabs(y) <= 0.5)) return copysign(tribunal_erfcinv(1.0 - fabs(y)), y);
    double x = y * 0.886226925452758;
    for (int i = 0; i < 4; i++) x -= (tribunal_erf_near(x) - y) * (exp(x * x) * 0.886226925452758);
    return x;
}
TRIBUNAL_DEVICE double erfcinv(double y) {
    if (y < 0.5) return tribunal_erfcinv(y);
    return y <= 1.5 ? erfinv(1.0 - y) : -tribunal_erfcinv(2.0 - y);
}
TRIBUNAL_DEVICE double normcdfinv(double y) { return fma(erfcinv(2.0 * y), -1.4142135623730951, 0.0); }

// log(gamma(2 + t)) for t from -3/4 to 1/2.
TRIBUNAL_DEVICE double tribunal_log_gamma(double t) {
    return t * tribunal_polynomial(
                   t, 0.42278433509846713, 0.32246703342411326, -0.06735230105319989, 0.02058080842777418,
                   -0.007385551028502159, 0.002890510331383695, -0.0011927539179523957, 0.0005096695054915424,
                   -0.00022315464669130103, 9.945783913330653e-05, -4.4927323253898135e-05, 2.0503882702645786e-05,
                   -9.433730911910839e-06, 4.395623759794621e-06, -2.0532766649484134e-06, 8.781963368636073e-07,
                   -4.5172517222650804e-07, 3.66529171043464e-07, -1.736660316326268e-08, -7.727327530285385e-08,
                   -1.4427747303509595e-07);
}
// What the logarithm of gamma(x) is beyond Stirling's (x - 1/2) log(x) - x + log(2 pi) / 2, for x >= 10.
TRIBUNAL_DEVICE double tribunal_stirling(double x) {
    double r = 1.0 / x;
    return r * tribunal_polynomial(r * r, 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0,
                                   -691.0 / 360360.0, 1.0 / 156.0);
}

TRIBUNAL_APART double tribunal_lgamma(double x) {
    if (x >= 10.0) return fma(x - 0.5, log(x) - 1.0, 0.4189385332046727 + tribunal_stirling(x));
    double product = 1.0;
    while (x > 2.5) product *= x -= 1.0;
    if (x >= 1.25) return log(product) + tribunal_log_gamma(x - 2.0);
    double t = x >= 0.5 ? x - 1.0 : x, result = tribunal_log_gamma(t) - log1p(t);
    return x >= 0.5 ? result : result - log(x);
}
TRIBUNAL_DEVICE double lgamma(double x) {
    if (!isfinite(x)) return x * x;
    if (x > 0.0) return tribunal_lgamma(x);
    if (x == trunc(x)) return __builtin_inf();
    if (x > -1e-17) return -log(-x);
    return log(3.141592653589793 / fabs(x * sinpi(x))) - tribunal_lgamma(-x);
}

// gamma(x) for x >= 10, or 1 over it for sign = -1.
TRIBUNAL_DEVICE double tribunal_gamma_far(double x, double sign) {
    double low, l = tribunal_log_sum(x, &low), n = x - 0.5;
    double product = __dmul_rn(n, l), sum = product - x;
    low = product - sum - x + (fma(n, l, -product) + fma(n, low, tribunal_stirling(x)));
    return tribunal_exp_sum(sign * sum, sign * low);
}
TRIBUNAL_APART double tgamma(double x) {
    if (x != x || x == __builtin_inf()) return x + x;
    if (x == 0.0) return copysign(__builtin_inf(), x);
    if (x < 0.0 && x == trunc(x)) return __builtin_nan("");
    if (x >= 10.0) return x > 172.0 ? __builtin_inf() : tribunal_gamma_far(x, 1.0) * 2.5066282746310007;
    if (x <= -10.0) return x < -190.0 ? 0.0 : -1.2533141373155003 / (x * sinpi(x)) * tribunal_gamma_far(-x, -1.0);
    double product = 1.0, quotient = 1.0;
    while (x > 2.5) product *= x -= 1.0;
    while (x < 1.5) {
        quotient *= x;
        x += 1.0;
    }
    return exp(tribunal_log_gamma(x - 2.0)) * product / quotient;
}

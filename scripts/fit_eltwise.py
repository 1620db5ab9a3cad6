#!/usr/bin/env python3
"""Derives the coefficients that include/sinter/jit/eltwise_*.hpp hold. Needs mpmath.

Each fit is a minimax approximation in the stated weight by Lawson's iteration (weighted least squares whose weights
grow where the error is large), linearised for rationals. Coefficients are rounded to binary32 one after another, from
the one that matters most on; the others are fitted anew each time, so rounding costs next to nothing. Printed: the
coefficients, lowest power first, as hexadecimal floats, and the largest error that is left (no evaluation error).

  python3 scripts/fit_eltwise.py [NAME]
"""
import struct
import sys

from mpmath import mp, mpf, matrix, lu_solve, cos, pi, exp, log, tanh, sqrt, erfc, expm1, log1p

mp.prec = 160


def f32(x):
    return mpf(struct.unpack('f', struct.pack('f', float(x)))[0])


def nodes(a, b, n):
    return [(a + b) / 2 + (b - a) / 2 * cos(pi * (2 * i + 1) / (2 * n)) for i in range(n)]


def least_squares(rows, rhs, weights):
    k = len(rows[0])
    a, b = matrix(k, k), matrix(k, 1)
    for row, y, w in zip(rows, rhs, weights):
        for i in range(k):
            wi = w * row[i]
            b[i] += wi * y
            for j in range(i + 1):
                a[i, j] += wi * row[j]
    for i in range(k):
        for j in range(i):
            a[j, i] = a[i, j]
    return list(lu_solve(a, b))


def fit(f, a, b, num, den=0, weight=lambda x, y: 1 / y, fixed=None, order=None, points=None, power=1, steps=40):
    """f on [a, b] by (sum c_i x^(i power)) / (1 + sum d_j x^(j power)); minimises weight * error."""
    points = points or 12 * (num + den + 2)
    xs = nodes(mpf(a), mpf(b), points)
    ys = [f(x) for x in xs]
    ws = [weight(x, y) for x, y in zip(xs, ys)]
    names = [('n', i) for i in range(num + 1)] + [('d', j) for j in range(1, den + 1)]
    known = {('n', k): mpf(v) for k, v in (fixed or {}).items()}
    order = order or names

    def basis(name, x, y):
        return x ** (name[1] * power) if name[0] == 'n' else -y * x ** (name[1] * power)

    def solve():
        free = [n for n in names if n not in known]
        lawson = [mpf(1)] * points
        q = [mpf(1)] * points
        best = None
        for _ in range(steps):
            if free:
                rows = [[basis(n, x, y) for n in free] for x, y in zip(xs, ys)]
                rhs = [y - sum(known[n] * basis(n, x, y) for n in known) for x, y in zip(xs, ys)]
                sol = least_squares(rows, rhs, [l * (w / qq) ** 2 for l, w, qq in zip(lawson, ws, q)])
            else:
                sol = []
            c = dict(known)
            c.update(zip(free, sol))
            ev = lambda n, x: c[n] * x ** (n[1] * power)
            q = [1 + sum(ev(n, x) for n in names if n[0] == 'd') for x in xs]
            p = [sum(ev(n, x) for n in names if n[0] == 'n') for x in xs]
            err = [abs(w * (pp / qq - y)) for w, pp, qq, y in zip(ws, p, q, ys)]
            worst = max(err)
            if best is None or worst < best[0]:
                best = (worst, c)
            if not free or worst == 0:
                break
            lawson = [l * (e / worst + mpf(10) ** -6) for l, e in zip(lawson, err)]
            s = sum(lawson)
            lawson = [l * points / s for l in lawson]
        return best

    for n in order:
        if n in known:
            continue
        _, c = solve()
        known[n] = f32(c[n])
    worst, c = solve()
    return [c[('n', i)] for i in range(num + 1)], [c[('d', j)] for j in range(1, den + 1)], worst


def show(name, numerator, denominator, worst):
    print(f'{name}: largest weighted error 2^{float(log(worst, 2)):.2f}')
    for title, cs in (('n', numerator), ('d', denominator)):
        for i, c in enumerate(cs):
            print(f'  {title}{i if title == "n" else i + 1}: {float(c).hex():>24}  {float(c):.9g}')


def relative(x, y):
    return 1 / y


def exp2_floor(degree, one=None):
    return fit(lambda f: mpf(2) ** f, 0, 1, degree, fixed=one)


def mills(t):
    """(1 - Phi(t)) exp(t^2 / 2), the slow part of the normal distribution's tail."""
    return exp(t * t / 2) * erfc(t / sqrt(mpf(2))) / 2


def mills_weight(t, y):
    """gelu_erf wants 4 ulp down to x = -1 and for every x > 0, but only 2^-16 below -1."""
    tail = y * exp(-t * t / 2)
    tolerance = mpf(2) ** -25 if t <= 1 else min(mpf(2) ** -17.5, mpf(2) ** -25 / tail)
    return 1 / (y * tolerance)


def mills_rest(t):
    return (mills(t) - mpf(1) / 2) / t


def mills_rest_weight(t, y):
    return mills_weight(t, mills(t)) * t


def log1p_over(t):
    return log1p(t) / t if t != 0 else mpf(1)


def expm1_twice_over(r):
    return expm1(2 * r) / r if r != 0 else mpf(2)


def log1p_rest(t):
    return (log1p(t) - t + t * t / 2) / t ** 3


def log1p_rest_weight(t, y):
    return t ** 3 / log1p(t)


FITS = {
    # 2^f on [0, 1): the fraction left by floor
    'exp2_floor5': lambda: exp2_floor(5),
    'exp2_floor6': lambda: exp2_floor(6),
    'exp2_floor3': lambda: exp2_floor(3),
    # 2^f on [-1/2, 1/2]: the fraction left by rounding to nearest
    'exp2_near5': lambda: fit(lambda f: mpf(2) ** f, -0.5, 0.5, 5, fixed={0: 1}),
    'exp2_near6': lambda: fit(lambda f: mpf(2) ** f, -0.5, 0.5, 6, fixed={0: 1}),
    # e^r on [-ln2/2, ln2/2], a little more for the rounding of the quotient
    'exp5': lambda: fit(exp, -0.3475, 0.3475, 5, fixed={0: 1, 1: 1}),
    'exp6': lambda: fit(exp, -0.3475, 0.3475, 6, fixed={0: 1, 1: 1}),
    # e^2r - 1 = r (2 + ...) on [-ln2/4, ln2/4]
    'expm1_twice5': lambda: fit(expm1_twice_over, -0.1738, 0.1738, 5, fixed={0: 2}),
    'expm1_twice4': lambda: fit(expm1_twice_over, -0.1738, 0.1738, 4, fixed={0: 2}),
    # tanh(x) / x in powers of x^2, up to where tanh rounds to 1
    'tanh5_3': lambda: fit(lambda x: tanh(x) / x, 1e-9, 9.02, 5, 3, power=2, points=200),
    'tanh5_4': lambda: fit(lambda x: tanh(x) / x, 1e-9, 9.02, 5, 4, power=2, points=200),
    'tanh6_3': lambda: fit(lambda x: tanh(x) / x, 1e-9, 9.02, 6, 3, power=2, points=200),
    # log(1 + t) / t for a significand in [3/4, 3/2)
    'log7': lambda: fit(log1p_over, -0.25, 0.5, 7, fixed={0: 1}),
    'log8': lambda: fit(log1p_over, -0.25, 0.5, 8, fixed={0: 1}),
    'log9': lambda: fit(log1p_over, -0.25, 0.5, 9, fixed={0: 1}),
    # (log(1 + t) - t + t^2 / 2) / t^3, weighed by its share of the logarithm
    'log_rest6': lambda: fit(log1p_rest, -0.25, 0.5, 6, weight=log1p_rest_weight),
    'log_rest7': lambda: fit(log1p_rest, -0.25, 0.5, 7, weight=log1p_rest_weight),
    # log(1 + e) / e for e in [0, 1]
    'log1p3_3': lambda: fit(log1p_over, 0, 1, 3, 3, fixed={0: 1}),
    'log1p4_3': lambda: fit(log1p_over, 0, 1, 4, 3, fixed={0: 1}),
    # (R(t) - 1/2) / t for the tail R of the normal distribution
    'mills_rest3_4': lambda: fit(mills_rest, 1e-6, 14.5, 3, 4, weight=mills_rest_weight, points=200),
    'mills_rest2_3': lambda: fit(mills_rest, 1e-6, 14.5, 2, 3, weight=mills_rest_weight, points=200),
}

if __name__ == '__main__':
    wanted = sys.argv[1:] or list(FITS)
    for name in wanted:
        show(name, *FITS[name]())

//! Layer norm for f32 and f64, with f64 accumulators.

pub mod contract;

use contract::*;

trait Float: Copy {
    fn wide(self) -> f64;
    fn narrow(value: f64) -> Self;
}

impl Float for f32 {
    fn wide(self) -> f64 {
        self.into()
    }
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

impl Float for f64 {
    fn wide(self) -> f64 {
        self
    }
    fn narrow(value: f64) -> Self {
        value
    }
}

struct Cache<T> {
    xhat: Vec<T>,
    rstd: Vec<f64>,
    gamma: Vec<T>,
}

enum State {
    Single(Cache<f32>),
    Double(Cache<f64>),
}

impl State {
    /// Elements of x, and of gamma.
    fn lengths(&self) -> (usize, usize) {
        match self {
            Self::Single(cache) => (cache.xhat.len(), cache.gamma.len()),
            Self::Double(cache) => (cache.xhat.len(), cache.gamma.len()),
        }
    }
}

fn normalise<T: Float>(x: &[T], gamma: &[T], beta: &[T], eps: f64, y: &mut [T]) -> Cache<T> {
    let cols = gamma.len();
    let mut xhat = Vec::with_capacity(x.len());
    let mut rstd = Vec::with_capacity(x.len() / cols);
    for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
        let mean = x.iter().map(|v| v.wide()).sum::<f64>() / cols as f64;
        let variance = x.iter().map(|v| (v.wide() - mean).powi(2)).sum::<f64>() / cols as f64;
        let scale = 1.0 / (variance + eps).sqrt();
        for (c, (x, y)) in x.iter().zip(y).enumerate() {
            let normal = (x.wide() - mean) * scale;
            *y = T::narrow(normal * gamma[c].wide() + beta[c].wide());
            xhat.push(T::narrow(normal));
        }
        rstd.push(scale);
    }
    Cache { xhat, rstd, gamma: gamma.to_vec() }
}

fn differentiate<T: Float>(cache: &Cache<T>, dy: &[T], dx: &mut [T], dgamma: &mut [T], dbeta: &mut [T]) {
    let cols = cache.gamma.len();
    let mut sums = vec![(0.0, 0.0); cols];
    let rows = dy.chunks_exact(cols).zip(cache.xhat.chunks_exact(cols)).zip(dx.chunks_exact_mut(cols));
    for (((dy, xhat), dx), &rstd) in rows.zip(&cache.rstd) {
        let (mut g_sum, mut g_xhat_sum) = (0.0, 0.0);
        for c in 0..cols {
            let (d, normal) = (dy[c].wide(), xhat[c].wide());
            let g = d * cache.gamma[c].wide();
            g_sum += g;
            g_xhat_sum += g * normal;
            sums[c].0 += d * normal;
            sums[c].1 += d;
        }
        for c in 0..cols {
            let g = dy[c].wide() * cache.gamma[c].wide();
            dx[c] = T::narrow(rstd * (g - (g_sum + xhat[c].wide() * g_xhat_sum) / cols as f64));
        }
    }
    for (c, sum) in sums.into_iter().enumerate() {
        dgamma[c] = T::narrow(sum.0);
        dbeta[c] = T::narrow(sum.1);
    }
}

unsafe fn forward<T: Float>(args: &mut ForwardArgs) -> Cache<T> {
    let (x, gamma, beta) = (&*args.x, &*args.gamma, &*args.beta);
    normalise(x.elements(), gamma.elements(), beta.elements(), args.eps, (*args.y).elements_mut())
}

unsafe fn backward<T: Float>(cache: &Cache<T>, args: &mut BackwardArgs) {
    let (dx, dgamma, dbeta) = (&mut *args.dx, &mut *args.dgamma, &mut *args.dbeta);
    differentiate(cache, (*args.dy).elements(), dx.elements_mut(), dgamma.elements_mut(), dbeta.elements_mut());
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_forward(args: *mut ForwardArgs) -> i32 {
    let args = &mut *args;
    let cols = (*args.gamma).count();
    if (*args.x).shape().last() != Some(&(cols as i64)) || (*args.beta).count() != cols {
        return refuse(args.message, "gamma and beta must be as long as a row of x");
    }
    let state = if (*args.x).is_float::<f32>() {
        State::Single(forward(args))
    } else if (*args.x).is_float::<f64>() {
        State::Double(forward(args))
    } else {
        return refuse(args.message, "float32 and float64 only");
    };
    args.cache = Box::into_raw(Box::new(state)).cast();
    0
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_backward(args: *mut BackwardArgs) -> i32 {
    let args = &mut *args;
    let (dy, state) = (&*args.dy, &*args.cache.cast::<State>());
    let (size, cols) = state.lengths();
    if dy.count() != size || dy.shape().last() != Some(&(cols as i64)) {
        return refuse(args.message, "dy must be shaped as x was");
    }
    match state {
        State::Single(cache) => backward(cache, args),
        State::Double(cache) => backward(cache, args),
    }
    0
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_release(state: *mut std::ffi::c_void) {
    drop(Box::from_raw(state.cast::<State>()));
}

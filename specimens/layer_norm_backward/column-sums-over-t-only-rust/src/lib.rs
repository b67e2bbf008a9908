//! Layer norm for f32 whose column sums run over as many rows as the second last axis is long.

mod contract;

use contract::*;

struct Cache {
    xhat: Vec<f32>,
    rstd: Vec<f32>,
    gamma: Vec<f32>,
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_forward(args: *mut ForwardArgs) -> i32 {
    let args = &mut *args;
    if !(*args.x).is_float::<f32>() {
        return refuse(args.message, "float32 only");
    }
    let (x, gamma, beta) = (&*args.x, &*args.gamma, &*args.beta);
    let (x, gamma, beta) = (x.elements::<f32>(), gamma.elements::<f32>(), beta.elements::<f32>());
    let cols = gamma.len();
    if (*args.x).shape().last() != Some(&(cols as i64)) || beta.len() != cols {
        return refuse(args.message, "gamma and beta must be as long as a row of x");
    }
    let mut cache = Cache { xhat: Vec::with_capacity(x.len()), rstd: Vec::new(), gamma: gamma.to_vec() };
    let y = &mut *args.y;
    for (x, y) in x.chunks_exact(cols).zip(y.elements_mut::<f32>().chunks_exact_mut(cols)) {
        let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / cols as f64;
        let variance = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / cols as f64;
        let rstd = 1.0 / (variance + args.eps).sqrt();
        for c in 0..cols {
            let xhat = ((f64::from(x[c]) - mean) * rstd) as f32;
            y[c] = xhat * gamma[c] + beta[c];
            cache.xhat.push(xhat);
        }
        cache.rstd.push(rstd as f32);
    }
    args.cache = Box::into_raw(Box::new(cache)).cast();
    0
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_backward(args: *mut BackwardArgs) -> i32 {
    let args = &mut *args;
    let cache = &*args.cache.cast::<Cache>();
    let dy = &*args.dy;
    let cols = cache.gamma.len();
    if dy.count() != cache.xhat.len() || dy.shape().last() != Some(&(cols as i64)) {
        return refuse(args.message, "dy must be shaped as x was");
    }
    let (dx, dgamma, dbeta) = (&mut *args.dx, &mut *args.dgamma, &mut *args.dbeta);
    let (dgamma, dbeta) = (dgamma.elements_mut::<f32>(), dbeta.elements_mut::<f32>());
    dgamma.fill(0.0);
    dbeta.fill(0.0);
    let rows = dy.elements::<f32>().chunks_exact(cols).zip(cache.xhat.chunks_exact(cols));
    for (r, ((dy, xhat), dx)) in rows.zip(dx.elements_mut::<f32>().chunks_exact_mut(cols)).enumerate() {
        let g: Vec<f64> = dy.iter().zip(&cache.gamma).map(|(dy, gamma)| f64::from(*dy) * f64::from(*gamma)).collect();
        let mean_g = g.iter().sum::<f64>() / cols as f64;
        let mean_g_xhat = g.iter().zip(xhat).map(|(g, xhat)| g * f64::from(*xhat)).sum::<f64>() / cols as f64;
        for c in 0..cols {
            dx[c] = (f64::from(cache.rstd[r]) * (g[c] - mean_g - f64::from(xhat[c]) * mean_g_xhat)) as f32;
        }
    }
    let shape = dy.shape();
    let rows = shape[shape.len() - 2] as usize;
    for (dy, xhat) in dy.elements::<f32>().chunks_exact(cols).zip(cache.xhat.chunks_exact(cols)).take(rows) {
        for c in 0..cols {
            dgamma[c] += dy[c] * xhat[c];
            dbeta[c] += dy[c];
        }
    }
    0
}

#[no_mangle]
pub unsafe extern "C" fn tribunal_release(state: *mut std::ffi::c_void) {
    drop(Box::from_raw(state.cast::<Cache>()));
}

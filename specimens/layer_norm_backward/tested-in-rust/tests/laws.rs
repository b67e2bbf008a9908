//! Two laws of the gradients.

use std::ffi::c_void;

use submission::contract::{BackwardArgs, DLTensor, ForwardArgs, MESSAGE_BYTES};
use submission::{tribunal_backward, tribunal_forward, tribunal_release};

const ROWS: usize = 5;
const COLS: usize = 7;

struct Array {
    values: Vec<f64>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Array {
    fn new(shape: &[i64], value: impl Fn(usize) -> f64) -> Self {
        let count = shape.iter().product::<i64>() as usize;
        let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        Self { values: (0..count).map(value).collect(), shape: shape.to_vec(), strides }
    }

    fn tensor(&mut self) -> DLTensor {
        DLTensor {
            data: self.values.as_mut_ptr().cast::<c_void>(),
            device_type: 1,
            device_id: 0,
            ndim: self.shape.len() as i32,
            dtype_code: 2,
            dtype_bits: 64,
            dtype_lanes: 1,
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut_ptr(),
            byte_offset: 0,
        }
    }
}

/// dy, dx and dbeta.
fn gradients() -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (rows, cols) = ([ROWS as i64, COLS as i64], [COLS as i64]);
    let wave = |scale: f64| move |i: usize| (scale * (i as f64 + 1.0)).sin();
    let (mut x, mut gamma, mut beta) =
        (Array::new(&rows, wave(1.3)), Array::new(&cols, wave(0.7)), Array::new(&cols, wave(0.2)));
    let (mut y, mut dy, mut dx) = (Array::new(&rows, |_| 0.0), Array::new(&rows, wave(2.1)), Array::new(&rows, |_| 0.0));
    let (mut dgamma, mut dbeta) = (Array::new(&cols, |_| 0.0), Array::new(&cols, |_| 0.0));
    let mut message = [0; MESSAGE_BYTES];
    let mut forward = ForwardArgs {
        x: &x.tensor(),
        gamma: &gamma.tensor(),
        beta: &beta.tensor(),
        eps: 1e-5,
        y: &mut y.tensor(),
        cache: std::ptr::null_mut(),
        keeps_inputs: 0,
        message: message.as_mut_ptr(),
    };
    assert_eq!(unsafe { tribunal_forward(&mut forward) }, 0);
    let mut backward = BackwardArgs {
        dy: &dy.tensor(),
        cache: forward.cache,
        dx: &mut dx.tensor(),
        dgamma: &mut dgamma.tensor(),
        dbeta: &mut dbeta.tensor(),
        message: message.as_mut_ptr(),
    };
    assert_eq!(unsafe { tribunal_backward(&mut backward) }, 0);
    unsafe { tribunal_release(forward.cache) };
    (dy.values, dx.values, dbeta.values)
}

#[test]
fn rows_of_dx_sum_to_nothing() {
    let (_, dx, _) = gradients();
    for row in dx.chunks(COLS) {
        assert!(row.iter().sum::<f64>().abs() < 1e-12);
    }
}

#[test]
fn dbeta_is_the_sum_of_dy() {
    let (dy, _, dbeta) = gradients();
    for (column, dbeta) in dbeta.iter().enumerate() {
        let sum: f64 = dy.chunks(COLS).map(|row| row[column]).sum();
        assert!((sum - dbeta).abs() < 1e-12);
    }
}

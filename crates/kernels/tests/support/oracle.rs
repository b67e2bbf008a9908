//! Layer normalisation as the paper defines it, slowly, in f64. Shares nothing with the kernels.

pub(crate) struct Forward {
    pub(crate) y: Vec<f64>,
    pub(crate) mean: Vec<f64>,
    pub(crate) rstd: Vec<f64>,
}

pub(crate) fn forward(cols: usize, x: &[f64], gamma: &[f64], beta: &[f64], eps: f64) -> Forward {
    let mut out = Forward { y: Vec::new(), mean: Vec::new(), rstd: Vec::new() };
    for row in x.chunks(cols) {
        let mean = sum(row.iter().copied()) / cols as f64;
        let var = sum(row.iter().map(|x| (x - mean) * (x - mean))) / cols as f64;
        let rstd = 1.0 / (var + eps).sqrt();
        out.y.extend(
            row.iter().zip(gamma).zip(beta).map(|((x, gamma), beta)| (x - mean) * rstd * gamma + beta),
        );
        out.mean.push(mean);
        out.rstd.push(rstd);
    }
    out
}

pub(crate) struct Backward {
    pub(crate) dx: Vec<f64>,
    pub(crate) dgamma: Vec<f64>,
    pub(crate) dbeta: Vec<f64>,
}

pub(crate) fn backward(
    cols: usize,
    dy: &[f64],
    x: &[f64],
    mean: &[f64],
    rstd: &[f64],
    gamma: &[f64],
) -> Backward {
    let mut dx = Vec::new();
    let mut columns = vec![(Vec::new(), Vec::new()); cols];
    for (r, (dy, x)) in dy.chunks(cols).zip(x.chunks(cols)).enumerate() {
        let xhat: Vec<f64> = x.iter().map(|x| (x - mean[r]) * rstd[r]).collect();
        let g: Vec<f64> = dy.iter().zip(gamma).map(|(dy, gamma)| dy * gamma).collect();
        let g_mean = sum(g.iter().copied()) / cols as f64;
        let g_xhat_mean = sum(g.iter().zip(&xhat).map(|(g, xhat)| g * xhat)) / cols as f64;
        dx.extend(g.iter().zip(&xhat).map(|(g, xhat)| rstd[r] * (g - g_mean - xhat * g_xhat_mean)));
        for (c, column) in columns.iter_mut().enumerate() {
            column.0.push(dy[c] * xhat[c]);
            column.1.push(dy[c]);
        }
    }
    let dgamma = columns.iter().map(|column| sum(column.0.iter().copied())).collect();
    let dbeta = columns.iter().map(|column| sum(column.1.iter().copied())).collect();
    Backward { dx, dgamma, dbeta }
}

/// A sum to nearly the last bit (Neumaier), so that the oracle stands above f64 kernels too.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() { (total - next) + value } else { (value - next) + total };
        total = next;
    }
    total + lost
}

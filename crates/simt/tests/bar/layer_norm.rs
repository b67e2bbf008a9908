//! `crates/kernels/cuda/layer_norm.cu`.

use tribunal_simt::launch::Argument;
use tribunal_simt::meter::{Meter, SECTOR};

use crate::device::*;
use crate::oracle::{Normalised, Numbers, normalise, sum};

/// The element types of the kernels.
trait Float: Element {
    const NAME: &str;
    /// Half of what is between 1 and the next number.
    const UNIT: f64;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    fn argument(value: f64) -> Argument;
}

impl Float for f32 {
    const NAME: &str = "f32";
    const UNIT: f64 = f32::EPSILON as f64 / 2.0;
    fn of(value: f64) -> f32 {
        value as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn argument(value: f64) -> Argument {
        Argument::F32(value as f32)
    }
}

impl Float for f64 {
    const NAME: &str = "f64";
    const UNIT: f64 = f64::EPSILON / 2.0;
    fn of(value: f64) -> f64 {
        value
    }
    fn wide(self) -> f64 {
        self
    }
    fn argument(value: f64) -> Argument {
        Argument::F64(value)
    }
}

/// Some rows, what they are computed with, and how.
#[derive(Clone)]
struct Case<T> {
    rows: usize,
    cols: usize,
    eps: f64,
    x: Vec<T>,
    dy: Vec<T>,
    gamma: Vec<T>,
    beta: Vec<T>,
}

impl<T: Float> Case<T> {
    fn new(rows: usize, cols: usize, mean: f64, deviation: f64) -> Case<T> {
        let mut numbers = Numbers::new((rows * 10_007 + cols) as u64);
        let mut draw = |count, mean, deviation| -> Vec<T> {
            numbers.normals(count, mean, deviation).into_iter().map(T::of).collect()
        };
        Case {
            rows,
            cols,
            eps: T::of(1e-5).wide(),
            x: draw(rows * cols, mean, deviation),
            dy: draw(rows * cols, 0.0, 1.0),
            gamma: draw(cols, 1.0, 0.3),
            beta: draw(cols, 0.0, 0.5),
        }
    }

    fn name(&self, kernel: &str, grid: u32, block: u32) -> String {
        format!("{kernel} {} x {}, {grid} blocks of {block}", self.rows, self.cols)
    }

    /// y, mean, rstd.
    fn forward(&self, kernel: &str, grid: u32, block: u32) -> (Vec<Vec<T>>, Vec<Meter>) {
        under_all_schedules(&self.name(kernel, grid, block), |device| {
            let inputs = [("x", &self.x), ("gamma", &self.gamma), ("beta", &self.beta)]
                .map(|(n, v)| device.input(n, v));
            let y = device.output::<T>("y", self.rows * self.cols);
            let [mean, rstd] = ["mean", "rstd"].map(|name| device.output::<T>(name, self.rows));
            let mut arguments = inputs.to_vec();
            arguments.extend([y, mean, rstd, rows(self.rows), int(self.cols), T::argument(self.eps)]);
            device.launch(&LAYER_NORM, kernel, Shape::new(grid, block, 0), arguments);
            [y, mean, rstd].map(|output| device.read(output)).to_vec()
        })
    }

    /// dx, dgamma, dbeta, from the mean and rstd of a forward pass; two launches.
    fn backward(&self, mean: &[T], rstd: &[T], grid: u32, block: u32) -> (Vec<Vec<T>>, Vec<Meter>) {
        self.backward_of(&format!("layer_norm_backward_{}", T::NAME), mean, rstd, grid, block)
    }

    fn backward_of(
        &self,
        kernel: &str,
        mean: &[T],
        rstd: &[T],
        grid: u32,
        block: u32,
    ) -> (Vec<Vec<T>>, Vec<Meter>) {
        let shared = shared(kernel, self.cols, block) * usize::from(T::BYTES);
        let reduction = format!("layer_norm_backward_columns_{}", T::NAME);
        under_all_schedules(&self.name(kernel, grid, block), |device| {
            let inputs =
                [("x", &*self.x), ("dy", &self.dy), ("gamma", &self.gamma), ("mean", mean), ("rstd", rstd)];
            let mut arguments = inputs.map(|(name, values)| device.input(name, values)).to_vec();
            let dx = device.output::<T>("dx", self.rows * self.cols);
            let [partial_dgamma, partial_dbeta] = ["partial_dgamma", "partial_dbeta"]
                .map(|name| device.output::<T>(name, grid as usize * self.cols));
            let [dgamma, dbeta] = ["dgamma", "dbeta"].map(|name| device.output::<T>(name, self.cols));
            arguments.extend([dx, partial_dgamma, partial_dbeta, rows(self.rows), int(self.cols)]);
            device.launch(&LAYER_NORM, kernel, Shape::new(grid, block, shared), arguments);
            let shape = Shape::new(self.cols.div_ceil(16) as u32, block, 0);
            let arguments =
                vec![partial_dgamma, partial_dbeta, dgamma, dbeta, int(grid as usize), int(self.cols)];
            device.launch(&LAYER_NORM, &reduction, shape, arguments);
            [dx, dgamma, dbeta].map(|output| device.read(output)).to_vec()
        })
    }

    fn backward_plain(&self, mean: &[T], rstd: &[T], grid: u32, block: u32) -> Vec<Vec<T>> {
        let run = |device: &mut Device| {
            let inputs =
                [("x", &*self.x), ("dy", &self.dy), ("gamma", &self.gamma), ("mean", mean), ("rstd", rstd)];
            let [x, dy, gamma, mean, rstd] = inputs.map(|(name, values)| device.input(name, values));
            let dx = device.output::<T>("dx", self.rows * self.cols);
            let [dgamma, dbeta] = ["dgamma", "dbeta"].map(|name| device.output::<T>(name, self.cols));
            let size = [rows(self.rows), int(self.cols)];
            let arguments = [&[x, dy, gamma, mean, rstd, dx], &size[..]].concat();
            device.launch(
                &LAYER_NORM,
                "layer_norm_backward_plain_f32",
                Shape::new(grid, block, 0),
                arguments,
            );
            let shape = Shape::new((self.cols as u32).div_ceil(block), block, 0);
            let arguments = [&[x, dy, mean, rstd, dgamma, dbeta], &size[..]].concat();
            device.launch(&LAYER_NORM, "layer_norm_backward_columns_plain_f32", shape, arguments);
            [dx, dgamma, dbeta].map(|output| device.read(output)).to_vec()
        };
        under_all_schedules(&self.name("plain", grid, block), run).0
    }

    fn normalised(&self) -> Vec<Normalised> {
        let wide = |row: &[T]| row.iter().map(|x| x.wide()).collect::<Vec<_>>();
        self.x.chunks_exact(self.cols).map(|row| normalise(&wide(row), self.eps)).collect()
    }

    /// An element of xhat is off by the roundings of x - mean, of the mean itself, which is rounded to its own size, and of rstd, whose
    /// sum of squares went through a few dozen additions: `32 u (|xhat| + rstd |mean|)` in all.
    fn check_forward(&self, name: &str, got: &[Vec<T>]) {
        let off = 32.0 * T::UNIT;
        for (r, row) in self.normalised().iter().enumerate() {
            let (mean, rstd) = (got[1][r].wide(), got[2][r].wide());
            near(name, "mean", r, mean, row.mean, off * (row.mean.abs() + 1.0 / row.rstd));
            near(name, "rstd", r, rstd, row.rstd, off * row.rstd);
            for (c, &xhat) in row.xhat.iter().enumerate() {
                let (gamma, beta) = (self.gamma[c].wide(), self.beta[c].wide());
                let expected = gamma * xhat + beta;
                let size = gamma.abs() * (xhat.abs() + row.rstd * row.mean.abs()) + beta.abs();
                near(name, "y", r * self.cols + c, got[0][r * self.cols + c].wide(), expected, off * size);
            }
        }
    }

    /// With the error of xhat as above, and sums of dozens of terms; the sums of columns have as many terms as there are rows to a block.
    fn check_backward(&self, name: &str, got: &[Vec<T>]) {
        let off = 64.0 * T::UNIT;
        let count = self.cols as f64;
        let rows = self.normalised();
        let mean = |terms: &[f64]| sum(terms.iter().copied()) / count;
        for (r, row) in rows.iter().enumerate() {
            let at = |c: usize| r * self.cols + c;
            let g: Vec<f64> = (0..self.cols).map(|c| self.dy[at(c)].wide() * self.gamma[c].wide()).collect();
            let gx: Vec<f64> = g.iter().zip(&row.xhat).map(|(g, xhat)| g * xhat).collect();
            let sizes: Vec<f64> =
                row.xhat.iter().map(|xhat| xhat.abs() + row.rstd * row.mean.abs()).collect();
            let g_size = mean(&g.iter().map(|g| g.abs()).collect::<Vec<_>>());
            let gx_size = mean(&g.iter().zip(&sizes).map(|(g, size)| g.abs() * size).collect::<Vec<_>>());
            let (g_mean, gx_mean) = (mean(&g), mean(&gx));
            for c in 0..self.cols {
                let expected = row.rstd * (g[c] - g_mean - row.xhat[c] * gx_mean);
                let size = row.rstd * (g[c].abs() + g_size + sizes[c] * gx_size);
                near(name, "dx", at(c), got[0][at(c)].wide(), expected, off * size);
            }
        }
        assert_eq!((got[1].len(), got[2].len()), (self.cols, self.cols));
        for (c, (dgamma_got, dbeta_got)) in got[1].iter().zip(&got[2]).enumerate() {
            let dys = || (0..self.rows).map(|r| self.dy[r * self.cols + c].wide());
            let dgamma = sum(dys().zip(&rows).map(|(dy, row)| dy * row.xhat[c]));
            let size = sum(dys()
                .zip(&rows)
                .map(|(dy, row)| dy.abs() * (row.xhat[c].abs() + row.rstd * row.mean.abs())));
            near(name, "dgamma", c, dgamma_got.wide(), dgamma, off * size);
            near(name, "dbeta", c, dbeta_got.wide(), sum(dys()), off * sum(dys().map(f64::abs)));
        }
    }
}

/// Elements of shared memory that a backward kernel is launched with: gamma, and two stages of x and dy for each warp or the block.
fn shared(kernel: &str, cols: usize, block: u32) -> usize {
    match kernel.trim_start_matches("layer_norm_backward_") {
        "f32" | "f64" => 0,
        "f32_768" | "f32_1024" => cols * (1 + 4 * block as usize / 32),
        _ => cols * 5,
    }
}

fn rows(rows: usize) -> Argument {
    Argument::I64(rows as i64)
}

fn near(name: &str, what: &str, index: usize, got: f64, expected: f64, bound: f64) {
    // Not the other way round: NaN is not near.
    assert!(
        (got - expected).abs() <= bound,
        "{name}: {what}[{index}] is {got}, not {expected} (+- {bound:e})"
    );
}

/// What fits registers and what does not, vectors and a bit more, rows at every place in a sector.
const COLS: [usize; 13] = [1, 2, 3, 5, 8, 31, 33, 127, 256, 264, 513, 1000, 1029];

fn all_shapes<T: Float>() {
    for (index, cols) in COLS.into_iter().enumerate() {
        let case = Case::<T>::new([1, 5, 9][index % 3], cols, 0.7, 1.5);
        for (grid, block) in [(8, 32), (8, 128), (16, 512)] {
            let kernel = format!("layer_norm_forward_{}", T::NAME);
            let (forward, _) = case.forward(&kernel, grid, block);
            case.check_forward(&case.name(&kernel, grid, block), &forward);
            let (backward, _) = case.backward(&forward[1], &forward[2], grid, block);
            case.check_backward(&case.name("backward", grid, block), &backward);
        }
    }
}

#[test]
fn all_shapes_f32() {
    all_shapes::<f32>();
}

#[test]
fn all_shapes_f64() {
    all_shapes::<f64>();
}

/// The kernels that hold whole rows.
fn held_shapes<T: Float>(forward: &[&str], backward: &[&str], shapes: &[(usize, usize, u32, u32)]) {
    for &(rows, cols, grid, block) in shapes {
        let case = Case::<T>::new(rows, cols, 0.7, 1.5);
        let mut cache = None;
        for form in forward {
            let kernel = format!("layer_norm_forward_{form}");
            let (got, _) = case.forward(&kernel, grid, block);
            case.check_forward(&case.name(&kernel, grid, block), &got);
            cache = Some(got);
        }
        let cache = cache.expect("there are kernels");
        for form in backward {
            let kernel = format!("layer_norm_backward_{form}");
            let (got, _) = case.backward_of(&kernel, &cache[1], &cache[2], grid, block);
            case.check_backward(&case.name(&kernel, grid, block), &got);
        }
    }
}

#[test]
fn held_rows_of_a_warp() {
    let shapes = [
        (5, 8, 1, 32),
        (9, 264, 8, 64),
        (21, 768, 2, 128),
        (3, 776, 8, 96),
        (17, 1000, 1, 128),
        (9, 1024, 3, 64),
        (1, 1024, 8, 32),
    ];
    held_shapes::<f32>(&["f32_768"], &["f32_768"], &shapes[..3]);
    held_shapes::<f32>(&["f32_1024"], &["f32_1024"], &shapes);
}

#[test]
fn held_rows_of_a_block_f32() {
    let shapes = [
        (5, 8, 1, 32),
        (9, 264, 8, 64),
        (4, 1000, 3, 128),
        (7, 1024, 2, 128),
        (3, 1032, 8, 160),
        (3, 2048, 8, 256),
    ];
    held_shapes::<f32>(&["f32_4096", "f32_8192"], &["f32_4096", "f32_8192"], &shapes);
}

#[test]
fn held_rows_of_a_block_f64() {
    let shapes = [(5, 8, 1, 32), (9, 264, 8, 64), (4, 760, 3, 96), (3, 516, 8, 96), (3, 1024, 8, 128)];
    held_shapes::<f64>(&["f64_4096"], &["f64_2048"], &shapes);
}

/// Rows that are none of whole sectors, or longer than their threads' vectors.
#[test]
fn rows_that_cannot_be_held_end_the_launch() {
    fn refused<T: Float>(kernel: &str, cols: usize, block: u32) {
        let case = Case::<T>::new(2, cols, 0.7, 1.5);
        let ones = vec![T::of(1.0); 2];
        let launch = || {
            let name = format!("layer_norm_{kernel}");
            if kernel.starts_with("forward") {
                case.forward(&name, 8, block);
            } else {
                case.backward_of(&name, &ones, &ones, 8, block);
            }
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(launch)).expect_err(kernel);
        let said = ended.downcast_ref::<String>().expect("a message");
        assert!(said.contains("ends the launch by a trap"), "{kernel} {cols}: {said}");
    }
    for direction in ["forward", "backward"] {
        for (form, cols, block) in
            [("f32_768", 776, 128), ("f32_1024", 1032, 128), ("f32_4096", 1032, 64), ("f32_8192", 2056, 64)]
        {
            let kernel = format!("{direction}_{form}");
            refused::<f32>(&kernel, 33, 64);
            refused::<f32>(&kernel, 268, 96);
            refused::<f32>(&kernel, cols, block);
        }
    }
    for kernel in ["forward_f64_4096", "backward_f64_2048"] {
        refused::<f64>(kernel, 515, 96);
        refused::<f64>(kernel, 516, 32);
    }
}

#[test]
fn plain_versions() {
    for (cols, grid, block) in [(1, 2, 32), (33, 1, 64), (260, 4, 128), (1000, 3, 256)] {
        let case = Case::<f32>::new(5, cols, 0.7, 1.5);
        let (forward, _) = case.forward("layer_norm_forward_plain_f32", grid, block);
        case.check_forward(&case.name("plain forward", grid, block), &forward);
        let backward = case.backward_plain(&forward[1], &forward[2], grid, block);
        case.check_backward(&case.name("plain backward", grid, block), &backward);
    }
}

#[test]
fn no_rows() {
    let case = Case::<f32>::new(0, 40, 0.0, 1.0);
    let (forward, _) = case.forward("layer_norm_forward_f32", 8, 64);
    assert!(forward.iter().all(Vec::is_empty));
    let (backward, _) = case.backward(&[], &[], 8, 64);
    assert!(backward[0].is_empty());
    assert_eq!((&backward[1], &backward[2]), (&vec![0.0; 40], &vec![0.0; 40]));
}

#[test]
fn a_large_mean_does_not_swallow_the_variance() {
    // The mean is 1000 times the deviation: E[x^2] - E[x]^2 in f32 would have no digit left.
    let case = Case::<f32>::new(3, 300, 1000.0, 1.0);
    let (forward, _) = case.forward("layer_norm_forward_f32", 2, 64);
    case.check_forward("a large mean", &forward);
    let case = Case::<f64>::new(3, 300, 1e8, 1.0);
    let (forward, _) = case.forward("layer_norm_forward_f64", 1, 64);
    case.check_forward("a large mean", &forward);
}

#[test]
fn rows_do_not_mix() {
    let mut case = Case::<f32>::new(4, 100, 0.0, 1.0);
    case.x[150] = f32::NAN;
    let (forward, _) = case.forward("layer_norm_forward_f32", 2, 32);
    for (r, row) in forward[0].chunks_exact(100).enumerate() {
        assert!(row.iter().all(|y| y.is_nan() == (r == 1)), "row {r}");
    }
}

#[test]
fn constant_rows_and_one_column() {
    let mut case = Case::<f32>::new(3, 50, 0.0, 1.0);
    case.x = vec![3.25; 150];
    let (forward, _) = case.forward("layer_norm_forward_f32", 4, 32);
    assert!(forward[0].chunks_exact(50).all(|row| row == case.beta), "y of a constant row is beta");
    let (backward, _) = case.backward(&forward[1], &forward[2], 4, 32);
    assert_eq!(backward[1], vec![0.0; 50], "dgamma of constant rows");
    let case = Case::<f32>::new(3, 1, 5.0, 1.0);
    let (forward, _) = case.forward("layer_norm_forward_f32", 8, 32);
    let (backward, _) = case.backward(&forward[1], &forward[2], 8, 32);
    assert_eq!(backward[0], vec![0.0; 3], "dx of a single column");
}

/// What must be moved at least: tensors, the cache, the parameters.
fn compulsory<T: Float>(case: &Case<T>, tensors: usize, parameters: usize) -> f64 {
    (usize::from(T::BYTES) * (tensors * case.rows * case.cols + parameters * case.cols + 2 * case.rows))
        as f64
}

/// `form`: of the kernels forward and backward; the second may be none.
fn traffic<T: Float>(form: [&str; 2], rows: usize, cols: usize, grid: u32, block: u32, except: &[&str]) {
    let case = Case::<T>::new(rows, cols, 0.3, 1.0);
    let (forward, meters) = case.forward(&format!("layer_norm_forward_{}", form[0]), grid, block);
    let name = case.name(&format!("forward {}", form[0]), grid, block);
    let over = bytes_moved(&meters) / compulsory(&case, 2, 2);
    println!("{name}: {over:.4} of what must be moved, {} instructions", meters[0].instructions);
    assert!((1.0..=1.02).contains(&over), "{name}: {over} of what must be moved");
    assert_no_waste(&name, &meters[0], except);
    if form[1].is_empty() {
        return;
    }
    let kernel = format!("layer_norm_backward_{}", form[1]);
    let (_, meters) = case.backward_of(&kernel, &forward[1], &forward[2], grid, block);
    let name = case.name(&format!("backward {}", form[1]), grid, block);
    let over = bytes_moved(&meters) / compulsory(&case, 3, 3);
    println!("{name}: {over:.4} of what must be moved, {} instructions", meters[0].instructions);
    assert!((1.0..=1.10).contains(&over), "{name}: {over} of what must be moved");
    meters.iter().for_each(|meter| assert_no_waste(&name, meter, except));
}

#[test]
fn traffic_is_what_must_be_moved() {
    traffic::<f32>(["f32"; 2], 256, 1024, 4, 128, &[]);
    traffic::<f32>(["f32"; 2], 256, 1024, 4, 256, &[]);
    traffic::<f64>(["f64"; 2], 256, 512, 4, 128, &[]);
    traffic::<f32>(["f32_768"; 2], 256, 768, 4, 128, &[]);
    traffic::<f32>(["f32_1024"; 2], 256, 1024, 4, 128, &[]);
    traffic::<f32>(["f32_4096"; 2], 256, 1024, 4, 128, &[]);
    traffic::<f32>(["f32_4096", "f32_8192"], 256, 1024, 4, 64, &[]);
    traffic::<f32>(["f32_8192", ""], 256, 1024, 4, 32, &[]);
    traffic::<f64>(["f64_4096", "f64_2048"], 256, 512, 4, 64, &[]);
}

/// As many blocks as a GPU is filled with ask for more: gamma and beta once a block, and backward the sums of each. What memory behind a
/// cache has to give is no more than that, as the same sectors are meant.
#[test]
fn what_many_blocks_ask_for_again_is_in_a_cache() {
    let (rows, cols, forward_blocks, backward_blocks) = (2048, 768, 512, 128);
    let case = Case::<f32>::new(rows, cols, 0.3, 1.0);
    let unique = |meters: &[Meter], wanted: &dyn Fn(&str) -> bool| -> f64 {
        let buffers = meters.iter().flat_map(|meter| &meter.buffers).filter(|buffer| wanted(&buffer.name));
        let sectors = buffers.map(|buffer| buffer.unique_sectors_read + buffer.unique_sectors_written);
        (sectors.sum::<u64>() * SECTOR) as f64
    };
    let each = |tensors: usize, blocks: u32| (4 * tensors * cols * blocks as usize) as f64;
    let (forward, meters) = case.forward("layer_norm_forward_f32_768", forward_blocks, 128);
    let least = compulsory(&case, 2, 2);
    assert!(unique(&meters, &|_| true) <= 1.001 * least);
    assert_eq!(
        bytes_moved(&meters),
        least - each(2, 1) + each(2, forward_blocks),
        "gamma and beta, once a block"
    );
    let (_, meters) =
        case.backward_of("layer_norm_backward_f32_768", &forward[1], &forward[2], backward_blocks, 256);
    let least = compulsory(&case, 3, 3);
    assert!(unique(&meters, &|name| !name.starts_with("partial")) <= 1.001 * least);
    let sums = each(2 + 2, backward_blocks);
    assert_eq!(unique(&meters, &|name| name.starts_with("partial")), sums, "written and read once");
    assert_eq!(bytes_moved(&meters), least - each(1, 1) + each(1, backward_blocks) + sums);
}

/// What is of no row, and is moved once a block, may be at another place in a sector than the block's rows.
#[test]
fn rows_at_any_place_move_no_more() {
    let once = ["gamma", "beta", "partial_dgamma", "partial_dbeta", "dgamma", "dbeta"];
    traffic::<f32>(["f32"; 2], 512, 333, 8, 64, &once);
}

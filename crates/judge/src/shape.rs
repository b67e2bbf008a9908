//! Shapes in case ids.

/// Elements of the largest tensor that a case may have.
const MOST: usize = 1 << 26;

/// `2x3x8`.
pub fn name(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
    extents.join("x")
}

/// The shape of that name, if it has elements, and no more than a case may have.
pub fn parse(name: &str) -> Option<Vec<usize>> {
    let shape: Vec<usize> = name.split('x').map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
    let elements = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent))?;
    (1..=MOST).contains(&elements).then_some(shape)
}

/// The shapes that are next smaller along one axis, each once: a half first, then three quarters, then one less.
pub fn smaller(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut shapes: Vec<Vec<usize>> = Vec::new();
    for shrink in
        [|extent: usize| extent / 2, |extent: usize| extent - extent.div_ceil(4), |extent: usize| extent - 1]
    {
        for axis in 0..shape.len() {
            let mut smaller = shape.to_vec();
            smaller[axis] = shrink(smaller[axis]);
            if smaller[axis] > 0 && !shapes.contains(&smaller) {
                shapes.push(smaller);
            }
        }
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_its_name() {
        assert_eq!(parse(&name(&[2, 3, 8])), Some(vec![2, 3, 8]));
        for wrong in ["", "2x", "0x3", "axb", "9999999999x9999999999", "67108864x2"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn smaller_shapes_have_elements() {
        assert_eq!(smaller(&[1, 8]), [[1, 4], [1, 6], [1, 7]]);
        assert!(smaller(&[1, 1]).is_empty());
    }
}

use super::*;
use crate::samples;

#[test]
fn show() {
    for v in [samples::accepted(), samples::rejected(), samples::hostile()] {
        println!("{}\n=========\n", verdict(&v));
    }
    println!(
        "{}",
        board(&[
            samples::accepted(),
            samples::rejected(),
            samples::hopeless(),
            samples::disqualified(),
            samples::infrastructure(),
            samples::hostile()
        ])
    );
}

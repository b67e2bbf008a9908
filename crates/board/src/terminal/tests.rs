use super::*;
use crate::samples;

#[test]
fn show() {
    for v in [
        samples::accepted(),
        samples::rejected(),
        samples::hopeless(),
        samples::disqualified(),
        samples::infrastructure(),
        samples::hostile(),
    ] {
        println!("{}\n=========\n", verdict(&v, &Style { color: false, width: 100 }));
    }
    println!(
        "{}",
        board(
            &[
                samples::accepted(),
                samples::rejected(),
                samples::hopeless(),
                samples::disqualified(),
                samples::infrastructure(),
                samples::hostile()
            ],
            &Style { color: false, width: 110 }
        )
    );
}

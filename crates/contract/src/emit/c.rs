//! The C header and starter.

use super::wrap;
use crate::abi::{ABI_VERSION, ALIGNMENT_BYTES, MESSAGE_BYTES};
use crate::{Challenge, Field, Kind, Operation};

/// The header: DLPack's tensor, one record and one prototype per operation.
pub(super) fn header(challenge: &Challenge) -> String {
    let mut text = format!(
        "/* {title}: the contract in C. Generated; `tribunal challenges {id}` explains it.\n *\n\
         {calling} */\n#ifndef TRIBUNAL_H\n#define TRIBUNAL_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
         #define TRIBUNAL_ABI {ABI_VERSION}\n#define TRIBUNAL_MESSAGE_BYTES {MESSAGE_BYTES}\n\n",
        title = challenge.title,
        id = challenge.id,
        calling = wrap(&calling(), 110, " * "),
    );
    text += DLPACK;
    for operation in challenge.operations {
        text += "\n/*\n";
        text += &wrap(operation.doc, 110, " * ");
        text +=
            &format!(" */\ntypedef struct {{\n{}}} tribunal_{}_args;\n", members(operation), operation.name);
        text += &format!("int32_t tribunal_{0}(tribunal_{0}_args *args);\n", operation.name);
    }
    if challenge.operations.iter().any(Operation::makes_state) {
        text += "\n/* Frees a state. Called once for each state that was made. */\nvoid tribunal_release(void *state);\n";
    }
    text += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    text
}

/// A source file whose operations all refuse.
pub(super) fn starter(challenge: &Challenge) -> String {
    let mut text = format!("/* {}: {} */\n", challenge.title, challenge.summary);
    text += "#include \"tribunal.h\"\n\n#include <stdio.h>\n#include <stdlib.h>\n";
    for operation in challenge.operations {
        text += &format!(
            "\nint32_t tribunal_{0}(tribunal_{0}_args *args) {{\n    \
             snprintf(args->message, TRIBUNAL_MESSAGE_BYTES, \"{0} is not implemented\");\n    return 1;\n}}\n",
            operation.name
        );
    }
    if challenge.operations.iter().any(Operation::makes_state) {
        text += "\nvoid tribunal_release(void *state) {\n    free(state);\n}\n";
    }
    text
}

/// The rules of a call, in prose.
pub(super) fn calling() -> String {
    format!(
        "Every operation takes one record and returns 0, or anything else to refuse, with a text at `message` \
         ({MESSAGE_BYTES} bytes, closing zero included). Tensors lie in main memory, row-major and contiguous, strides \
         given, byte_offset 0, starting at a multiple of {ALIGNMENT_BYTES} bytes. Outputs are allocated by the caller; \
         write every element. Inputs are not to be written to. They are gone when the call returns, unless the call \
         makes a state and sets `keeps_inputs` to 1: then they stay valid and unchanged until tribunal_release, and \
         count as memory that the state keeps. Calls come one at a time, from one thread; you may use threads inside."
    )
}

fn members(operation: &Operation) -> String {
    let mut text = String::new();
    for (fields, constant) in [(operation.inputs, "const "), (operation.outputs, "")] {
        for field in fields {
            text += &member(field, constant, operation);
        }
    }
    if operation.makes_state() {
        text += "    int64_t keeps_inputs;  /* out: 1 if the state refers to the inputs */\n";
    }
    text += "    char *message;  /* out: why the call was refused */\n";
    text
}

fn member(field: &Field, constant: &str, operation: &Operation) -> String {
    let made = operation.outputs.iter().any(|output| output.name == field.name);
    let (declaration, doc) = match field.kind {
        Kind::Tensor(shape) => {
            (format!("{constant}DLTensor *{}", field.name), format!("{shape}: {}", field.doc))
        }
        Kind::Real => (format!("double {}", field.name), field.doc.to_owned()),
        Kind::Integer => (format!("int64_t {}", field.name), field.doc.to_owned()),
        Kind::State => {
            (format!("void *{}", field.name), format!("{}{}", if made { "out: " } else { "" }, field.doc))
        }
    };
    format!("    {declaration};  /* {doc} */\n")
}

const DLPACK: &str = "\
/* DLPack's tensor, as in dlpack.h; include that first and it is used instead. */
#ifndef DLPACK_DLPACK_H_
typedef struct {
    int32_t device_type;  /* 1: main memory */
    int32_t device_id;
} DLDevice;
typedef struct {
    uint8_t code;  /* 0 integer, 2 float, 4 bfloat */
    uint8_t bits;
    uint16_t lanes;
} DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;    /* ndim of them */
    int64_t *strides;  /* in elements, ndim of them */
    uint64_t byte_offset;
} DLTensor;
#endif
";

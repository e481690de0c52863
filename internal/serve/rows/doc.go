// Package rows turns the inputs of a request into a batch, with the encoder of training.
//
//	Tensors    one tensor per field: N rows, N × L values, or one row for all
//	Examples   serialised tf.Examples, with or without a context
//	Columns    values per row and field, as a JSON request holds them
//
// All of them become the same lists of values per field that the formats of training data
// become, and one encoder makes keys and numbers of them. Examples are encoded row by row, the
// others field by field, and a value that all rows share once. A field that a request does not
// have is a missing value, as in training. Inputs that the model does not have are ignored.
// Both are counted.
//
// A Coder belongs to one goroutine. It allocates nothing per row once its lists have grown.
// What a request can hold wrong is a *Fault, which names the input and the row.
package rows

// Package inspect looks at some records of files and guesses how they are written and
// what their columns mean: format, delimiter, header, types, label. The guesses are for
// a person to check; nothing is trained on them unseen.
//
// Of one file, half of the records are from its beginning and the others from places
// all over it; of several files, from all of them, or from 16.
package inspect

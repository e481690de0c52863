// Package input provides the data of a job: the datasets that the configuration names, the
// encoder of their records, and the readers of the training rows.
//
//	datasets    Open, Scan: all ranks count the records together
//	encoder     Survey, LoadIndex
//	sharing     SaveSurvey, Recall: trainings of the same data scan it once
//	readers     Feed over all epochs; Reader of one slot or the rest of an epoch
//	streams     Stream: data that grows, span by span
//
// Every rank of a group makes the same calls. Faults of files and records are errors that
// name the place. Doubtful data causes warnings.
package input

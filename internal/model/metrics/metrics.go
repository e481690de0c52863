// Package metrics computes the results of an evaluation: how well predictions rank the
// samples, how good they are as probabilities, and how both compare with a model that
// predicts the base rate for every sample.
//
// A Tally counts predictions on one rank; Reduce adds the tallies of all ranks. All counts
// are integers, so the results have the same bits however the samples are divided among the
// ranks. A Tally takes at most 6 MiB, and as much again during a Reduce. Groups does the same for
// samples that belong to groups, such as users.
//
// A sample of weight w counts as w samples in every metric except Samples and Positives.
package metrics

import (
	"fmt"
	"math"
	"strings"
)

// Metrics are the results of one evaluation.
type Metrics struct {
	Samples   int64    `json:"samples"`
	Positives int64    `json:"positives"` // samples with the label 1
	AUC       *float64 `json:"auc"`       // null if all samples have the same label
	LogLoss   float64  `json:"logloss"`
	Accuracy  float64  `json:"accuracy"`

	// PRAUC is the area under the precision-recall curve as average precision:
	// the precision at each threshold, weighted by the gain in recall.
	PRAUC *float64 `json:"pr_auc"`
	// BaseRate is the share of positive samples.
	BaseRate float64 `json:"base_rate"`
	// BaseLogLoss is the log-loss of predicting BaseRate for every sample.
	BaseLogLoss float64 `json:"base_logloss"`
	// NormalisedEntropy is LogLoss / BaseLogLoss (He et al. 2014); a useful model is below 1.
	NormalisedEntropy *float64 `json:"normalised_entropy"`
	// Calibration is the mean prediction divided by BaseRate.
	Calibration *float64 `json:"calibration"`

	// Metrics of a label that is a number. BaseRate is then the mean label, LogLoss the mean of
	// the loss that training minimises, and BaseLogLoss the loss of predicting the mean.
	RMSE     *float64 `json:"rmse,omitempty"`
	MAE      *float64 `json:"mae,omitempty"`
	BaseRMSE *float64 `json:"base_rmse,omitempty"` // RMSE of predicting the mean for every sample

	Labels []Labelled `json:"labels,omitempty"` // metrics of the labels after the first
}

// Labelled are the metrics of one label.
type Labelled struct {
	Label string `json:"label"`
	Metrics
}

// AUCText returns the AUC for people, or the reason why it is undefined.
func (m Metrics) AUCText() string {
	switch {
	case m.AUC != nil:
		return fmt.Sprintf("AUC %.4f", *m.AUC)
	case m.Positives == 0:
		return "AUC undefined (no positive samples)"
	}
	return "AUC undefined (no negative samples)"
}

// Brief returns the metrics that are shown as progress.
func (m Metrics) Brief() string {
	if m.RMSE != nil {
		return fmt.Sprintf("RMSE %.4g, loss %.4g", *m.RMSE, m.LogLoss)
	}
	return fmt.Sprintf("%s, log-loss %.4f", m.AUCText(), m.LogLoss)
}

// String returns one line with the metrics by which models are compared.
func (m Metrics) String() string {
	if m.RMSE != nil {
		return m.numbers()
	}
	return fmt.Sprintf("%s   log-loss %.4f   accuracy %.4f", m.AUCText(), m.LogLoss, m.Accuracy)
}

// Base returns one line that compares the model with one that predicts the base rate. It
// returns "" for metrics of a release that did not compute it.
func (m Metrics) Base() string {
	switch {
	case m.RMSE != nil:
		return m.numbersBase()
	case m.AUC == nil:
		return fmt.Sprintf("base rate %.4f", m.BaseRate)
	case m.NormalisedEntropy == nil || m.Calibration == nil || m.PRAUC == nil:
		return ""
	}
	return fmt.Sprintf("base rate %.4f (log-loss %.4f)   normalised entropy %.4f   calibration %.4f   PR-AUC %.4f",
		m.BaseRate, m.BaseLogLoss, *m.NormalisedEntropy, *m.Calibration, *m.PRAUC)
}

// perfect is the AUC above which a feature probably contains the label, if there are enough samples of
// each class: of few ones, a model may rank all correctly by chance.
const (
	perfect = 0.9999
	enough  = 50
)

// worse is the normalised entropy above which a log-loss counts as worse than the log-loss of the
// base rate. It exceeds 1 because a model cannot know the base rate of the evaluated samples.
const worse = 1.01

// Warning returns a warning about implausible metrics and advice, or "". what names the
// samples.
func (m Metrics) Warning(what string) string {
	if m.RMSE != nil {
		return m.numbersWarning(what)
	}
	var lines []string
	if m.AUC != nil && *m.AUC >= perfect && min(m.Positives, m.Samples-m.Positives) >= enough {
		lines = append(lines, fmt.Sprintf("the AUC of %s is %.4f: some feature probably contains the label; wdlrun data stats shows how much each column reveals about it", what, *m.AUC))
	}
	if m.NormalisedEntropy != nil && *m.NormalisedEntropy >= worse {
		lines = append(lines, fmt.Sprintf("the log-loss of %s, %.4f, is worse than %.4f, which predicting the base rate %.4f for every sample gives: %s",
			what, m.LogLoss, m.BaseLogLoss, m.BaseRate, m.remedy()))
	}
	return strings.Join(lines, "; ")
}

// remedy returns advice for a log-loss worse than the base rate's.
func (m Metrics) remedy() string {
	switch {
	case *m.AUC < 0.5:
		return "its ranking is worse than chance, so compare the labels and columns with the training data"
	case *m.Calibration > 1.25 || *m.Calibration < 0.8:
		return fmt.Sprintf("the mean prediction is %.2f times the base rate, so check that labels and base rate match the training data; if they do, lower train.optimizer.*.learning_rate", *m.Calibration)
	}
	return "the model is overconfident, so check that labels and columns match the training data; if they do, use fewer train.epochs, train.early_stop or train.l2, or lower train.optimizer.*.learning_rate"
}

// entropy returns the log-loss of predicting rate for samples of which the same share is
// positive.
func entropy(rate float64) float64 {
	if rate <= 0 || rate >= 1 {
		return 0
	}
	return float64(-rate*math.Log(rate)) - float64((1-rate)*math.Log1p(-rate))
}

// numbersBase implements Base for a label that is a number.
func (m Metrics) numbersBase() string {
	s := fmt.Sprintf("mean %.4g (RMSE %.4g, loss %.4g)", m.BaseRate, *m.BaseRMSE, m.BaseLogLoss)
	if m.Calibration != nil {
		s += fmt.Sprintf("   calibration %.4f", *m.Calibration)
	}
	return s
}

// numbers implements String for a label that is a number.
func (m Metrics) numbers() string {
	return fmt.Sprintf("RMSE %.4g   MAE %.4g   loss %.4g", *m.RMSE, *m.MAE, m.LogLoss)
}

// numbersWarning implements Warning for a label that is a number.
func (m Metrics) numbersWarning(what string) string {
	if m.LogLoss <= m.BaseLogLoss+float64((worse-1)*math.Abs(m.BaseLogLoss)) {
		return ""
	}
	return fmt.Sprintf("the loss of %s, %.4g, is worse than %.4g, which predicting the mean %.4g for every sample gives: check that labels and columns match the training data; if they do, use train.early_stop or train.l2, or lower train.optimizer.*.learning_rate",
		what, m.LogLoss, m.BaseLogLoss, m.BaseRate)
}

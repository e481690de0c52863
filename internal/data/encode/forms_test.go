package encode

import "testing"

// A value in a form that the training data does not have is written as there.
func TestFormsOfTheTrainingData(t *testing.T) {
	for _, c := range []struct{ trained, value, want string }{
		{"12", "7.0", "7"}, {"12", "0.0", "0"}, {"12.0", "7", "7.0"}, {"12.0", "-7", "-7.0"}, {"0", "-9223372036854775808.0", "-9223372036854775808"},
		{"true", "1", "true"}, {"false", "True", "true"}, {"True", "0", "False"}, {"TRUE", "0.0", "FALSE"}, {"1", "false", "0"}, {"1.0", "TRUE", "1.0"},
		{"12", "7.205759403792794e+16", "72057594037927936"}, {"12", "1.2345678E7", "12345678"}, {"12.0", "72057594037927936", "7.205759403792794e+16"},
		{"1e+16", "7", "7.0"}, {"a", " b", "b"}, {"a", "b\t", "b"}, {"12", " 7.0 ", "7"},
	} {
		if got := string((formText | formOf([]byte(c.trained))).like([]byte(c.value), nil)); got != c.want {
			t.Errorf("trained on values such as %q, %q is %q, want %q", c.trained, c.value, got, c.want)
		}
	}
	for _, c := range []struct{ trained, value string }{
		{"12", "7.5"}, {"12", "7.00"}, {"12", "007.0"}, {"12", "12345678901234567890123.0"}, {"12", "yes"}, {"12", ".0"}, {"12", "-.0"}, {"12", " "},
		{"a", "7"}, {"a", "7.0"}, {"a", "true"}, {" a", " b"}, {" a", "b"}, {"true", "7"}, {"true", "true"},
	} {
		if got := string((formText | formOf([]byte(c.trained))).like([]byte(c.value), nil)); got != c.value {
			t.Errorf("trained on values such as %q, %q becomes %q", c.trained, c.value, got)
		}
	}
	if got := string((formText | formInteger | formReal).like([]byte("7.0"), nil)); got != "7.0" {
		t.Errorf("7.0 becomes %q, but the training data has it", got)
	}
}

// mayHold, which hot loops ask first, misses no form.
func TestFormsByTheirEnds(t *testing.T) {
	for _, text := range []string{"7", "70", "1234567", "7.0", "10.0", "7.205759403792794e+16", "1e+16", "5E3", "0", "0.0", "TRUE", "FALSE", "True", "False", "true", "false", " a", "a ", "\ta", "a\t", " "} {
		if f := formOf([]byte(text)); f == 0 || !f.mayHold([]byte(text)) {
			t.Errorf("%q: form %v is not found", text, f.names())
		}
	}
	for f, text := range map[forms]string{allForms &^ formInteger: "68fd1e60", formTruth: "68fd1e6e", formReal: "0", formInteger: "68fd1e6e"} {
		if f.mayHold([]byte(text)) {
			t.Errorf("%q may have one of the forms %v", text, f.names())
		}
	}
}

// A set without numbers and truth values has another form only for blanks.
func TestOthers(t *testing.T) {
	for f, want := range map[forms]forms{formText: formPadded, formText | formPadded: 0, formText | formInteger: formReal | formTruth | formPadded} {
		if got := f.others() &^ formText; got != want {
			t.Errorf("others of %v: %v, want %v", f.names(), got.names(), want.names())
		}
	}
}

func TestOtherFormsDoNotAllocate(t *testing.T) {
	f := &featureCode{forms: formText | formReal}
	f.others = f.forms.others()
	if n := testing.AllocsPerRun(100, func() { f.hashOf([]byte("7")) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

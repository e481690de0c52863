package encode

import "testing"

// A value in a form that the training data does not have is written as there.
func TestFormsOfTheTrainingData(t *testing.T) {
	for _, c := range []struct{ trained, value, want string }{
		{"12", "7.0", "7"}, {"12", "0.0", "0"}, {"12.0", "7", "7.0"}, {"12.0", "-7", "-7.0"}, {"0", "-9223372036854775808.0", "-9223372036854775808"},
		{"true", "1", "true"}, {"false", "True", "true"}, {"True", "0", "False"}, {"TRUE", "0.0", "FALSE"}, {"1", "false", "0"}, {"1.0", "TRUE", "1.0"},
		{"a", " b", "b"}, {"a", "b\t", "b"}, {"12", " 7.0 ", "7"},
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

// formsLike, which hot loops ask first, misses no form.
func TestFormsByTheirEnds(t *testing.T) {
	for _, text := range []string{"7", "70", "7.0", "0", "0.0", "TRUE", "FALSE", "True", "False", "true", "false", " a", "a ", "\ta", "a\t", " "} {
		if f := formOf([]byte(text)); f == 0 || f&^formsLike([]byte(text)) != 0 {
			t.Errorf("%q: form %v, its ends show %v", text, f.names(), formsLike([]byte(text)).names())
		}
	}
}

func TestOtherFormsDoNotAllocate(t *testing.T) {
	f := &featureCode{forms: formText | formReal}
	f.unseen = allForms &^ f.forms
	if n := testing.AllocsPerRun(100, func() { f.hashOf([]byte("7")) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

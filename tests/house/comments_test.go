package house

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"testing"
)

var (
	firstWord = regexp.MustCompile(`^(An? |The )?(\w+)`)
	testFunc  = regexp.MustCompile(`^(Test|Benchmark|Example|Fuzz)`)
)

// TestCommentsStandAboveTheirDeclarations: the comment of a function or a type begins with its name. No
// other comment outside of functions begins with the name of a function or a type of the package. A move of
// code that leaves a comment behind breaks one of the two.
func TestCommentsStandAboveTheirDeclarations(t *testing.T) {
	t.Parallel()
	all, checked := sources(t), 0
	declared := map[string]map[string]bool{} // by folder
	for _, s := range all {
		if declared[s.dir()] == nil {
			declared[s.dir()] = map[string]bool{}
		}
		for _, d := range s.file.Decls {
			if names := namesOf(d); isFuncOrType(d) {
				for _, name := range names {
					declared[s.dir()][name] = true
				}
			}
		}
	}
	for _, s := range all {
		if s.isGenerated() {
			continue
		}
		for _, c := range looseComments(s) {
			checked++
			if why := misplaced(c, declared[s.dir()]); why != "" {
				t.Errorf("%s: %s", s.fset.Position(c.group.Pos()), why)
			}
		}
	}
	if checked < 5000 {
		t.Errorf("only %d comments were found", checked)
	}
}

// looseComment is a comment outside of all declarations, and the declaration that follows it without an empty
// line, nil if there is none.
type looseComment struct {
	group *ast.CommentGroup
	decl  ast.Decl
}

// looseComments returns the comments of a file after its imports that are outside of all declarations. A comment
// behind a declaration, on its last line, is a part of it.
func looseComments(s source) (all []looseComment) {
	line := func(p token.Pos) int { return s.fset.Position(p).Line }
	after := line(s.file.Name.End())
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			after = line(d.End())
		}
	}
	for _, group := range s.file.Comments {
		c, at := looseComment{group: group}, line(group.Pos())
		isInside := at <= after
		for _, d := range s.file.Decls {
			switch {
			case docOf(d) == group:
				c.decl = d
			case d.Pos() < group.Pos() && at <= line(d.End()):
				isInside = true
			}
		}
		if !isInside {
			all = append(all, c)
		}
	}
	return all
}

// misplaced returns why a comment is not the comment of its declaration, and "" if it may be. functions are the
// functions and the types of the package.
func misplaced(c looseComment, functions map[string]bool) string {
	m := firstWord.FindStringSubmatch(c.group.Text())
	if m == nil {
		return ""
	}
	article, word, own := m[1], m[2], namesOf(c.decl)
	isTest := len(own) == 1 && testFunc.MatchString(own[0])
	switch {
	case slices.Contains(own, word):
	case isFuncOrType(c.decl) && len(own) == 1 && !isTest:
		return "the comment of " + own[0] + " begins with " + word
	case article == "" && functions[word] && (!isTest || testFunc.MatchString(word)):
		return "a comment begins with the name of " + word + ", which is declared elsewhere"
	}
	return ""
}

// namesOf returns the names that a declaration declares, without the receiver of a method.
func namesOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

func isFuncOrType(d ast.Decl) bool {
	if g, ok := d.(*ast.GenDecl); ok {
		return g.Tok == token.TYPE
	}
	return d != nil
}

func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

func base(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return base(t.X)
	case *ast.IndexExpr:
		return base(t.X)
	case *ast.IndexListExpr:
		return base(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func main() {
	root := os.Args[1]
	for _, pkg := range os.Args[2:] {
		files, _ := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		out := map[string]string{}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
			if err != nil {
				panic(err)
			}
			for _, d := range tree.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if !d.Name.IsExported() {
						continue
					}
					if d.Recv == nil {
						out[d.Name.Name] = "func"
					} else if b := base(d.Recv.List[0].Type); ast.IsExported(b) {
						out[b+"."+d.Name.Name] = "method"
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						switch s := s.(type) {
						case *ast.TypeSpec:
							if !s.Name.IsExported() {
								continue
							}
							out[s.Name.Name] = "type"
							if it, ok := s.Type.(*ast.InterfaceType); ok {
								for _, m := range it.Methods.List {
									for _, n := range m.Names {
										if n.IsExported() {
											out[s.Name.Name+"."+n.Name] = "method"
										}
									}
								}
							}
						case *ast.ValueSpec:
							for _, n := range s.Names {
								if n.IsExported() {
									out[n.Name] = d.Tok.String()
								}
							}
						}
					}
				}
			}
		}
		names := []string{}
		for n := range out {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			fmt.Println(pkg + "\t" + out[n] + "\t" + n)
		}
	}
}

from __future__ import annotations

from manager.codegen.prose import paragraphs


def test_lines_of_a_paragraph_are_joined():
    assert paragraphs("One sentence\n    over two lines.\n    ") == "One sentence over two lines."


def test_paragraphs_stay_apart():
    assert paragraphs("A\nb.\n\nC\nd.") == "A b.\n\nC d."


def test_lists_and_indented_lines_keep_their_lines():
    text = "Either:\n- one\n- two\n  indented\n1. first\n* starred"
    assert paragraphs(text) == text


def test_text_after_a_blank_line_starts_anew_after_a_list():
    assert paragraphs("- one\n\nand\nmore") == "- one\n\nand more"

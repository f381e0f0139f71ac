"""The text of Word documents and PDFs, or a refusal that says what to install."""

import io
import sys
from pathlib import Path

import pytest

from fedner.corpus.file_kinds import PDF, WORD
from fedner.errors import FednerError
from fedner.inference.inputs import open_input
from fedner.inference.notes import find_notes
from fedner.inference.office import read_office_file


def pdf_of(*pages: str) -> bytes:
    """Return a PDF as small as they come, a line of text on each page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    data, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{each}\nendobj\n".encode()
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    return (
        data
        + (
            f"xref\n0 {count}\n0000000000 65535 f \n{rows}"
            f"trailer\n<< /Size {count} /Root 1 0 R >>\n"
            f"startxref\n{len(data)}\n%%EOF\n"
        ).encode()
    )


def word_of(*lines: str) -> bytes:
    docx = pytest.importorskip("docx", reason="needs the extra office")
    document = docx.Document()
    for line in lines:
        document.add_paragraph(line)
    held = io.BytesIO()
    document.save(held)
    return held.getvalue()


def test_all_that_a_reader_sees_of_a_word_document(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx", reason="needs the extra office")
    from docx.oxml import parse_xml

    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Patient: Ann Smith"
    document.add_paragraph("Took\taspirin.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Drug", "20 mg"
    name = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    changed = document.add_paragraph("No ")
    for part in (
        f"<w:ins {name}><w:r><w:t>rash</w:t></w:r></w:ins>",
        f"<w:del {name}><w:r><w:delText>fever</w:delText></w:r></w:del>",
        f"<w:moveFrom {name}><w:r><w:t>moved</w:t></w:r></w:moveFrom>",
    ):
        changed._p.append(parse_xml(part))
    path = tmp_path / "letter.docx"
    document.save(str(path))
    text = read_office_file(path, WORD)
    lines = [line for line in text.split("\n") if line]
    assert lines == ["Took\taspirin.", "Drug", "20 mg", "No rash", "Patient: Ann Smith"]


def test_pages_of_a_pdf_one_after_the_other(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="needs the extra office")
    path = tmp_path / "letter.pdf"
    path.write_bytes(pdf_of("Took aspirin.", "No rash."))
    assert read_office_file(path, PDF).split() == ["Took", "aspirin.", "No", "rash."]
    path.write_bytes(pdf_of(""))
    with pytest.raises(FednerError, match="a PDF without text") as caught:
        read_office_file(path, PDF)
    assert "OCR" in caught.value.hint
    path.write_bytes(b"%PDF-1.4\nnonsense")
    with pytest.raises(FednerError, match="a PDF that cannot be read"):
        read_office_file(path, PDF)


def test_a_pdf_with_a_password(tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf", reason="needs the extra office")
    writer = pypdf.PdfWriter(io.BytesIO(pdf_of("Took aspirin.")))
    writer.encrypt("secret", algorithm="RC4-128")
    path = tmp_path / "locked.pdf"
    writer.write(path)
    with pytest.raises(FednerError, match="password"):
        read_office_file(path, PDF)


def test_a_folder_of_all_kinds(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="needs the extra office")
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.docx").write_bytes(word_of("Took aspirin."))
    (tmp_path / "deep" / "b.PDF").write_bytes(pdf_of("No rash."))
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4\nnonsense")
    (tmp_path / "c.TXT").write_text("Fever.")
    opened = open_input(tmp_path)
    assert opened.total == 4
    found = {each.id: each.text.strip() for each in opened.documents}
    assert found == {"a.docx": "Took aspirin.", "deep/b.PDF": "No rash.", "c": "Fever."}
    assert [each.path.name for each in opened.left_out] == ["bad.pdf"]
    assert opened.left_out[0].is_refused
    names = [path.name for path in find_notes(tmp_path).files]
    assert names == ["c.TXT"], "what is written again must be text"


@pytest.mark.parametrize(("module", "data"), [("docx", None), ("pypdf", pdf_of("Rash."))])
def test_without_the_library_extra_and_command_are_named(
    module: str, data: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "letter"
    path.write_bytes(word_of("Rash.") if data is None else data)
    (tmp_path / "a.txt").write_text("Fever.")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FednerError) as caught:
        open_input(path)
    assert "pip install 'fedner[office]'" in caught.value.hint
    opened = open_input(tmp_path)
    assert [each.id for each in opened.documents] == ["a"]
    assert "pip install 'fedner[office]'" in opened.left_out[0].hint

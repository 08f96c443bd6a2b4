"""The page that describes the API."""


def test_docs_need_no_other_server(ask):
    page = ask("GET", "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "POST /v1/opinions" in page.text
    assert "<script" not in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert ask("GET", "/docs.css").status_code == 200
